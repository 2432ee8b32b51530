// Messages of the server, in which the names of settings and commands lead to the documentation.
import { signal } from "@preact/signals";
import { html } from "./html.js";
import { root } from "./api.js";

/** Addresses below docs/ by the names of settings and commands; undefined until a message has one. @type {import("@preact/signals").Signal<Record<string, string> | undefined>} */
const terms = signal(undefined);
let asked = false;

/** Settings, and commands with one or two words. */
const term = /\bslipway [a-z][a-z-]*(?: [a-z][a-z-]*)?|\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b/g;

async function ask() {
  if (asked) return;
  asked = true;
  try {
    const r = await fetch(new URL("docs/terms.json", root));
    if (r.ok) terms.value = await r.json();
  } catch {
    // The message is shown without links.
  }
}

/** @param {Record<string, string>} known @param {string} name */
function found(known, name) {
  for (let n = name; n !== ""; n = n.slice(0, Math.max(0, n.lastIndexOf(" ")))) if (Object.hasOwn(known, n)) return n;
  return "";
}

/** @param {{text: string}} props */
export function Told({ text }) {
  const all = [...text.matchAll(term)];
  if (all.length > 0) void ask();
  const known = terms.value;
  if (!known) return text;
  const out = [];
  let at = 0;
  for (const m of all) {
    const name = found(known, m[0]);
    if (!name) continue;
    out.push(text.slice(at, m.index), html`<a href=${new URL(`docs/${known[name]}`, root).href}>${name}</a>`);
    at = m.index + name.length;
  }
  return html`${out}${text.slice(at)}`;
}
