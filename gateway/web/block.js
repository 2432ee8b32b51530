// A long text: lines can be wrapped, and the text copied.
import { useState } from "preact/hooks";
import { Copy } from "./copy.js";
import { html } from "./html.js";

/** @param {{title: string, text: string, what?: string, level?: 2 | 3}} props what describes the text to screen readers, if the title does not suffice */
export function Block({ title, text, what = title, level = 2 }) {
  const [wraps, wrap] = useState(true);
  return html`<div class="block"><div class="head">${level === 2 ? html`<h2>${title}</h2>` : html`<h3 class="minor">${title}</h3>`}<span class="links">
      <button type="button" class="small" aria-pressed=${wraps} onClick=${() => wrap(!wraps)}>Wrap<span class="unseen"> the lines: ${what}</span></button>
      <${Copy} text=${text} what=${what} /></span></div>
    <pre class=${wraps ? "source wrapped" : "source"} tabindex="0" aria-label=${what}>${text}</pre></div>`;
}
