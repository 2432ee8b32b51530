// Loading of a view's data, with its pending and failed states.
import { useEffect, useState } from "preact/hooks";
import { isAborted, words } from "./api.js";
import { html } from "./html.js";
import { Told } from "./told.js";

/**
 * Loads data when the view opens and whenever a value of on changes. The previous data stays
 * until the new data has arrived.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} ask
 * @param {unknown[]} on
 * @returns {{value?: T, problem: string, again: () => void}}
 */
export function useLoad(ask, on) {
  const [value, set] = useState(/** @type {T | undefined} */ (undefined));
  const [problem, say] = useState("");
  const [round, next] = useState(0);
  useEffect(() => {
    const ended = new AbortController();
    ask(ended.signal).then((v) => {
      if (ended.signal.aborted) return;
      set(() => v);
      say("");
    }, (err) => isAborted(err) || ended.signal.aborted || say(words(err)));
    return () => ended.abort();
  }, [...on, round]);
  return { value, problem, again: () => next((n) => n + 1) };
}

/**
 * Repeats a call while the page is visible.
 * @param {() => void} again
 * @param {number} every in ms; 0 means never
 */
export function useAgain(again, every) {
  useEffect(() => {
    if (!every) return undefined;
    const ticks = setInterval(() => document.hidden || again(), every);
    return () => clearInterval(ticks);
  }, [every]);
}

/**
 * Shows that data is loading or why loading failed; empty once there is data.
 * @param {{of: {value?: unknown, problem: string, again: () => void}, what: string}} props
 *   what names the data, e.g. "Your runs"
 */
export function Waiting({ of, what }) {
  if (of.problem) {
    return html`<div class="failed" role="alert"><h2>${what} cannot be shown</h2><p class="why"><${Told} text=${of.problem} /></p>
      <p><button type="button" class="small" onClick=${of.again}>Try again</button></p></div>`;
  }
  return of.value === undefined ? html`<p class="note" role="status">Loading…</p>` : null;
}

/** @param {{offset: number, most: number, total: number, go: (offset: number) => void, what: string}} props */
export function Pager({ offset, most, total, go, what }) {
  if (total <= most && offset === 0) return null;
  return html`<nav class="pager" aria-label=${`Pages of ${what}`}>
    <button type="button" class="small" disabled=${offset === 0} onClick=${() => go(Math.max(0, offset - most))}>Previous</button>
    <span role="status">${(Math.min(offset + 1, total)).toLocaleString()}–${Math.min(offset + most, total).toLocaleString()} of ${total.toLocaleString()}</span>
    <button type="button" class="small" disabled=${offset + most >= total} onClick=${() => go(offset + most)}>Next</button></nav>`;
}

/**
 * A button that asks for confirmation before an action that cannot be undone.
 * @param {{label: string, what: string, act: () => Promise<unknown>}} props what names the
 *   object of the action for screen readers
 */
export function Sure({ label, what, act }) {
  const [state, be] = useState(/** @type {"" | "asked" | "busy"} */ (""));
  const [problem, say] = useState("");
  const run = async () => {
    be("busy");
    say("");
    try {
      await act();
    } catch (err) {
      say(words(err));
    }
    be("");
  };
  return html`<span class="sure">
    ${state === "" ? html`<button type="button" class="small" key="ask" onClick=${() => be("asked")}>${label}<span class="unseen"> ${what}</span></button>`
      : html`<button type="button" class="small bad" key="yes" ref=${focus} disabled=${state === "busy"} onClick=${run}>Yes, ${label.toLowerCase()}<span class="unseen"> ${what}</span></button>
        <button type="button" class="small" key="no" disabled=${state === "busy"} onClick=${() => be("")}>No</button>`}
    ${problem && html`<span class="note problem" role="alert"><${Told} text=${problem} /></span>`}</span>`;
}

/** @param {HTMLElement | null} el */
function focus(el) {
  el?.focus();
}
