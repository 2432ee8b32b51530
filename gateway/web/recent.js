// What was requested in this browser lately. Only the address of the form is stored, and nothing of a
// request that names a login or a token.
import { signal } from "@preact/signals";
import { count, html, moment } from "./html.js";
import { entries, image, isSecret, kind, query } from "./order.js";
import { forgetRecent, recentKey } from "./session.js";

const most = 8;

/** @typedef {{query: string, title: string, at: string}} Recent */

/** @returns {Recent[]} */
function read() {
  try {
    const all = JSON.parse(localStorage.getItem(recentKey) ?? "[]");
    return Array.isArray(all) ? all.filter((r) => typeof r?.query === "string" && typeof r.title === "string" && typeof r.at === "string") : [];
  } catch { // nothing is stored, or storage is disabled
    return [];
  }
}

const recent = signal(read());

/** Adds the request in the form, if its address restores it. */
export function note() {
  if (!query.value || isSecret.value || kind.value === "environment" || kind.value === "dockerfile") return;
  const shown = entries.value.slice(0, 4).join(" ");
  const more = entries.value.length > 4 ? ` and ${count(entries.value.length - 4, "package")} more` : "";
  const title = kind.value === "image" ? [image.value, shown].filter(Boolean).join(" + ") + more : shown + more;
  recent.value = [{ query: query.value, title, at: new Date().toISOString() }, ...recent.value.filter((r) => r.query !== query.value)].slice(0, most);
  try {
    localStorage.setItem(recentKey, JSON.stringify(recent.value));
  } catch { /* then the list lasts as long as the page */ }
}

/** The list, and a way to delete it. */
export function Recent() {
  if (!recent.value.length) return null;
  return html`<section class="recent" aria-labelledby="recent"><div class="head"><h2 id="recent">Recent in this browser</h2>
    <button type="button" class="text" onClick=${() => {
      forgetRecent();
      recent.value = [];
    }}>Forget</button></div>
    <ul class="plain">${recent.value.map((r) => html`<li key=${r.query}><a href=${`?${r.query}`}>${r.title}</a> <span class="note">${moment(r.at)}</span></li>`)}</ul></section>`;
}
