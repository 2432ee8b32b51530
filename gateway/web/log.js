// The log of a build, which can be followed and searched.
import { useEffect, useRef, useState } from "preact/hooks";
import { bare, coloured } from "./ansi.js";
import { root } from "./api.js";
import { count, html } from "./html.js";
import { most } from "./watch.js";

/** @typedef {import("./watch.js").Line} Line */

/** A line with the matches highlighted. @param {string} text @param {string} what in lower case */
function marked(text, what) {
  const out = [];
  const lower = text.toLowerCase();
  let from = 0;
  for (let at = lower.indexOf(what); at >= 0; at = lower.indexOf(what, from)) {
    out.push(text.slice(from, at), html`<mark>${text.slice(at, at + what.length)}</mark>`);
    from = at + what.length;
  }
  return [...out, text.slice(from)];
}

/** The HTML of a line, rendered once. @param {Line} line */
function row(line) {
  line.shown ??= html`<div key=${line.n}>${coloured(line.text)}</div>`;
  return line.shown;
}

/** @param {{lines: Line[], ended: boolean, what: string}} props */
function Rows({ lines, ended, what }) {
  if (!lines.length) return what ? "No line contains this text." : ended ? "The log is empty." : "No lines yet.";
  return what ? lines.map((l) => html`<div key=${`${l.n} found`}>${marked(bare(l.text), what)}</div>`) : lines.map(row);
}

/** @param {{watch: import("./watch.js").Watch, id: string}} props */
export function Log({ watch, id }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [follows, follow] = useState(true); // scrolls to the end until the user scrolls up
  const [typed, type] = useState("");
  const all = watch.lines.value;
  const what = typed.trim().toLowerCase();
  const lines = what ? all.filter((l) => bare(l.text).toLowerCase().includes(what)) : all;
  const ended = !!watch.end.value;
  useEffect(() => {
    if (follows && !what && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, follows]);
  const raw = new URL(`v1alpha1/builds/${id}/logs`, root).href;
  return html`<section aria-labelledby="log-title">
    <div class="head"><h2 id="log-title">Log</h2><span class="links">
      <a href=${raw}>Raw</a><a href=${raw} download=${`build-${id}.log`}>Download</a></span></div>
    <div class="bar"><input type="text" class="find" aria-label="Find in the log" placeholder="Find in the log" autocapitalize="none" autocomplete="off" spellcheck=${false} value=${typed}
        onInput=${(/** @type {any} */ e) => type(e.currentTarget.value)} />
      <span class="note" role="status">${what ? `${lines.length.toLocaleString()} of ${count(all.length, "line")}` : ""}</span>
      ${!ended && html`<button type="button" class="pill" aria-pressed=${follows} onClick=${() => follow(!follows)}>Follow</button>`}</div>
    ${all.length >= most && html`<p class="note">These are the last ${most.toLocaleString()} lines.</p>`}
    <div class="log" ref=${box} tabindex="0" role="log" aria-label="Log of the build" aria-live="off"
      onScroll=${(/** @type {any} */ e) => {
        const at = e.currentTarget;
        follow(at.scrollHeight - at.scrollTop - at.clientHeight < 40);
      }}><${Rows} lines=${lines} ended=${ended} what=${what} /></div>
    ${watch.problem.value && html`<p class="note problem" role="status">${watch.problem.value}</p>`}
  </section>`;
}
