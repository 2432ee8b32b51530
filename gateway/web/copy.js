// A text with a button that copies it to the clipboard.
import { useEffect, useState } from "preact/hooks";
import { html } from "./html.js";

/** @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text); // without https, browsers offer no clipboard API
  }
}

/** @param {string} text */
function copySelected(text) {
  const from = document.createElement("textarea");
  from.value = text;
  from.className = "unseen";
  document.body.append(from);
  const before = document.activeElement;
  from.select();
  const done = document.execCommand("copy");
  from.remove();
  if (before instanceof HTMLElement) before.focus();
  return done;
}

/** @param {{text: string, what: string}} props what describes the text to screen readers */
export function Copy({ text, what }) {
  const [said, say] = useState("");
  useEffect(() => {
    if (!said) return undefined;
    const later = setTimeout(() => say(""), 2500);
    return () => clearTimeout(later);
  }, [said]);
  return html`<button type="button" class="copy" onClick=${async () => say((await copy(text)) ? "Copied" : "Select it and copy")}>
    <span aria-live="polite">${said || "Copy"}</span><span class="unseen"> ${what}</span></button>`;
}

/** @param {{text: string, what: string, large?: boolean}} props */
export function Copied({ text, what, large }) {
  return html`<div class=${large ? "copied large" : "copied"}><code tabindex="0" aria-label=${what}>${text}</code><${Copy} text=${text} what=${what} /></div>`;
}
