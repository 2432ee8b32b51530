// A text of several lines, with a button that copies it.
import { Copy } from "./copy.js";
import { html } from "./html.js";

/** @param {{title: string, text?: string}} props */
export function Source({ title, text }) {
  if (!text) return null;
  return html`<section><h2>${title}</h2><div class="copied block"><pre class="source" tabindex="0" aria-label=${title}>${text}</pre><${Copy} text=${text} what=${`the ${title}`} /></div></section>`;
}
