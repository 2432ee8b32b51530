// The processes of a run with their progress. A process can be chosen, so that only its tasks are listed.
import { useState } from "preact/hooks";
import { breakable, html } from "./html.js";
import { done, parts, Tally, total } from "./tally.js";

/** @typedef {import("./tally.js").Load} Load */

/** The number of processes that are shown at first. */
const first = 60;

/** The longest suffix that is tried as a short name, in segments. */
const deepest = 6;

/**
 * The shortest suffix of each name, in segments, that no other name ends with.
 * @param {string[]} names such as NFCORE_RNASEQ:RNASEQ:FASTQC
 * @returns {Map<string, string>}
 */
export function shortNames(names) {
  /** @param {string} name */
  const suffixes = (name) => {
    const at = name.split(":").slice(-deepest);
    return at.map((_, i) => at.slice(at.length - 1 - i).join(":"));
  };
  /** @type {Map<string, number>} */
  const uses = new Map();
  for (const suffix of [...new Set(names)].flatMap(suffixes)) uses.set(suffix, (uses.get(suffix) ?? 0) + 1);
  return new Map(names.map((name) => [name, suffixes(name).find((s) => uses.get(s) === 1) ?? name]));
}

/** The segments that all names begin with, without the last segment of any; "" if there are none. @param {string[]} names */
export function commonPrefix(names) {
  if (names.length < 2) return "";
  let same = names[0].split(":").slice(0, -1);
  for (const name of names) {
    const own = name.split(":").slice(0, -1);
    const end = same.findIndex((s, i) => s !== own[i]);
    if (end >= 0) same = same.slice(0, end);
  }
  return same.length ? `${same.join(":")}:` : "";
}

/** @param {{of: Load, short: string, chosen: boolean, choose: (name: string) => void}} props */
function Row({ of, short, chosen, choose }) {
  const name = of.process ?? "";
  const all = total(of), { failed } = parts(of);
  return html`<li class=${failed ? "with-failed" : ""}><button type="button" aria-pressed=${chosen} title=${name} onClick=${() => choose(chosen ? "" : name)}>
    <span class="name"><span class="unseen">${name.slice(0, name.length - short.length)}</span>${breakable(short)}</span>
    <${Tally} load=${of} small /><span class="number note">${all ? `${done(of).toLocaleString()} of ${all.toLocaleString()}` : "not begun"}</span></button></li>`;
}

/** @param {{processes: Load[], names: Map<string, string>, chosen: string, choose: (name: string) => void}} props names are the short names */
export function Processes({ processes, names, chosen, choose }) {
  const [whole, open] = useState(false);
  if (!processes.length) return null;
  const prefix = commonPrefix(processes.map((p) => p.process ?? ""));
  const ordered = [...processes.filter((p) => parts(p).failed), ...processes.filter((p) => !parts(p).failed)];
  const shown = ordered.filter((p, i) => whole || i < first || p.process === chosen);
  return html`<section class="processes" aria-labelledby="processes-title"><div class="head"><h2 id="processes-title">Processes</h2>
      ${chosen && html`<button type="button" class="small" onClick=${() => choose("")}>Show all tasks</button>`}</div>
    ${prefix && html`<p class="note prefix">All in <code>${prefix.slice(0, -1)}</code></p>`}
    <ul>${shown.map((p) => html`<${Row} key=${p.process} of=${p} short=${names.get(p.process ?? "") ?? ""} chosen=${p.process === chosen} choose=${choose} />`)}</ul>
    ${shown.length < ordered.length && html`<p><button type="button" class="small" onClick=${() => open(true)}>Show all ${ordered.length.toLocaleString()} processes</button></p>`}</section>`;
}
