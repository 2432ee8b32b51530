// Solves the environment while the user composes it, and shows the result: its packages, or why
// there is no solution and what would work instead.
import { batch, effect, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call, Failure, isAborted, words } from "./api.js";
import { count, html, size } from "./html.js";
import { ages, channels, entries, environment, isPicked, packages, platforms } from "./order.js";
import { plain, renamed } from "./spec.js";

/**
 * @typedef {{name: string, version: string, channel: string, size?: number}} Locked
 * @typedef {{platform: string, packages?: Locked[], size?: number, knownLayers?: number, missingBytes?: number, outdated?: Record<string, string>}} Lock
 * @typedef {{change: string, packages?: string[], channels?: string[]}} Suggestion
 * @typedef {{text?: string, because?: Reason[]}} Reason
 * @typedef {{summary?: string, reasons?: Reason[], missing?: {name: string, nearest?: string[]}[]}} Conflict
 * @typedef {{state: "none" | "asking" | "unknown", why?: string}
 *   | {state: "possible", locks: Lock[], notes: string[]}
 *   | {state: "impossible", message: string, conflict: Conflict, suggestions: Suggestion[]}} Answer
 */

/** The latest result. */
export const answer = signal(/** @type {Answer} */ ({ state: "none" }));

function asking() {
  const body = { packages: packages.value, platforms: platforms.value, forContainer: true, ...ages.value };
  if (!body.packages) {
    answer.value = { state: "none" };
    return undefined;
  }
  answer.value = { state: "asking" };
  const ended = new AbortController();
  const wait = setTimeout(async () => {
    try {
      const { locks, notes } = await call("POST", "v1alpha1/conda/lock", { body, signal: ended.signal });
      answer.value = { state: "possible", locks: locks ?? [], notes: notes ?? [] };
    } catch (err) {
      if (isAborted(err)) return;
      if (err instanceof Failure && err.status === 422) {
        answer.value = { state: "impossible", message: err.message, conflict: err.body?.conflict ?? {}, suggestions: err.body?.suggestions ?? [] };
      } else answer.value = { state: "unknown", why: err instanceof Failure && err.status === 404 ? "" : words(err) };
    }
  }, 300);
  return () => {
    clearTimeout(wait);
    ended.abort();
  };
}

/** @param {Suggestion} s */
function follow(s) {
  batch(() => {
    entries.value = (s.packages ?? []).map(plain);
    if (s.channels?.length) channels.value = s.channels;
  });
}

/**
 * Corrections of names in an environment file: the changed text, and what to do.
 * @param {Conflict} conflict
 */
function corrections({ missing = [] }) {
  return missing.flatMap(({ name, nearest = [] }) => nearest.slice(0, 3).map((near) => ({
    change: `use ${near} instead of ${name}`, text: renamed(environment.value, name, near),
  }))).filter(({ text }) => text !== environment.value);
}

/** The changes that would work, as buttons if the page can make them. @param {{answer: Answer & {state: "impossible"}}} props */
function Suggestions({ answer: { suggestions, conflict } }) {
  const names = isPicked.value ? [] : corrections(conflict);
  const others = suggestions.filter((s) => !names.some(({ change }) => change === s.change));
  return html`${names.length > 0 && html`<p class="would">Did you mean:</p>
      <ul class="suggestions">${names.map(({ change, text }) => html`<li key=${change}>
        <button type="button" onClick=${() => (environment.value = text)}>${change}</button></li>`)}</ul>`}
    ${others.length > 0 && html`<p class="would">What would work:</p>
      <ul class="suggestions">${others.map((s) => html`<li key=${s.change}>
        ${isPicked.value ? html`<button type="button" onClick=${() => follow(s)}>${s.change}</button>` : s.change}</li>`)}</ul>`}`;
}

/**
 * A summary of the download size, without the layers that the service already has.
 * @param {Lock} lock
 */
function download({ size: all, packages, knownLayers: there = 0, missingBytes: missing = 0 }) {
  if (!all) return "";
  if (there === packages?.length) return `, ${size(all)}: all there already`;
  return there ? `, ${size(all)}, of which ${size(all - missing)} are there already` : `, ${size(all)} to download`;
}

/** @param {{lock: Lock, several: boolean}} props */
function Contents({ lock, several }) {
  const all = lock.packages ?? [];
  const old = Object.keys(lock.outdated ?? {}).length > 0;
  return html`<details class="contents">
    <summary>${count(all.length, "package")}${download(lock)}${several ? `, for ${lock.platform}` : ""}</summary>
    ${old && html`<p class="note">A channel could not be reached; an older list of its packages was used.</p>`}
    <div class="scroll" tabindex="0" role="region" aria-label=${`Packages for ${lock.platform}`}><table>
      <thead><tr><th scope="col">Package</th><th scope="col">Version</th><th scope="col">Channel</th><th scope="col" class="number">Size</th></tr></thead>
      <tbody>${all.map((p) => html`<tr key=${p.name}><td>${p.name}</td><td>${p.version}</td><td>${p.channel}</td>
        <td class="number">${p.size ? size(p.size) : ""}</td></tr>`)}</tbody>
    </table></div>
  </details>`;
}

/** @param {{reasons?: Reason[]}} props */
function Reasons({ reasons }) {
  if (!reasons?.length) return null;
  return html`<ul class="reasons">${reasons.map((r) => html`<li>${r.text}<${Reasons} reasons=${r.because} /></li>`)}</ul>`;
}

/** Shows the result. */
export function Preflight() {
  useEffect(() => effect(asking), []);
  const a = answer.value;
  const single = isPicked.value && entries.value.length < 2;
  return html`<div class=${`preflight ${a.state}`} aria-live="polite">
    ${a.state === "asking" && html`<p>Solving…</p>`}
    ${a.state === "unknown" && html`<p>${a.why || "Conflicts between these packages are only reported by the build."}</p>`}
    ${a.state === "possible" && html`<p class="verdict good">${single ? "This can be made." : "These fit together."}</p>
      ${a.locks.map((l) => html`<${Contents} key=${l.platform} lock=${l} several=${a.locks.length > 1} />`)}
      ${a.notes.map((n) => html`<p class="note" key=${n}>${n}.</p>`)}`}
    ${a.state === "impossible" && html`<p class="verdict bad">${single ? "This cannot be made." : "These do not fit together."}</p>
      <p>${a.conflict.summary || a.message}</p>
      ${a.conflict.reasons?.length && html`<details><summary>Step by step</summary><${Reasons} reasons=${a.conflict.reasons} /></details>`}
      <${Suggestions} answer=${a} />`}
  </div>`;
}
