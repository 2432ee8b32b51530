// The log of a build, which can be followed and searched.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
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

/** The number of a line, which links to it, and its time. @param {Line} line */
function head(line) {
  const at = line.at && new Date(line.at);
  return html`<a class="n" href=${`#L${line.n}`} data-n=${line.n} aria-label=${`Line ${line.n}`}></a>${at && html`<time datetime=${line.at} title=${line.at.replace("T", " ").replace("Z", " UTC")}
    data-at=${at.toLocaleTimeString(undefined, clock)}></time>`}`;
}

/** @type {Intl.DateTimeFormatOptions} */
const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };

/** The HTML of a line, rendered once. @param {Line} line */
function row(line) {
  line.shown ??= html`<div key=${line.n} id=${`L${line.n}`}>${head(line)}${coloured(line.text)}</div>`;
  return line.shown;
}

/** Where this browser stores whether times are shown. */
const timesKey = "slipway-times";

function readTimes() {
  try {
    return localStorage.getItem(timesKey) === "true";
  } catch { // storage is disabled
    return false;
  }
}

/** @param {boolean} on */
function storeTimes(on) {
  try {
    localStorage.setItem(timesKey, String(on));
  } catch { /* then the choice lasts as long as the page */ }
}

/** @param {{lines: Line[], ended: boolean, what: string, at: number}} props at is the number of the line with the current match */
function Rows({ lines, ended, what, at }) {
  if (!lines.length) return ended ? "The log is empty." : "No lines yet.";
  return lines.map((l) => {
    const text = what ? bare(l.text) : "";
    if (!what || !text.toLowerCase().includes(what)) return row(l);
    return html`<div key=${`${l.n} found`} id=${`L${l.n}`} class=${l.n === at ? "found" : ""}>${head(l)}${marked(text, what)}</div>`;
  });
}

/** The number of the line in the address; 0 for none. */
const linked = () => Number(/^#L(\d{1,9})$/.exec(location.hash)?.[1] ?? 0);

/** The lines that are shown around a line, which need not be among the last ones. @param {Line[]} all @param {number} n */
function around(all, n) {
  const from = Math.max(0, Math.min(all.findIndex((l) => l.n === n) - most / 2, all.length - most));
  return all.slice(from, from + most);
}

/** @param {{watch: import("./watch.js").Watch, id: string}} props */
export function Log({ watch, id }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [follows, follow] = useState(!linked()); // scrolls to the end until the user scrolls up
  const [typed, type] = useState("");
  const [at, go] = useState(linked());
  const [wraps, wrap] = useState(true);
  const [times, show] = useState(readTimes);
  const size = watch.size.value, all = watch.all;
  const what = typed.trim().toLowerCase();
  const found = useMemo(() => (what ? all.filter((l) => bare(l.text).toLowerCase().includes(what)).map((l) => l.n) : []), [what, size]);
  const ended = !!watch.end.value;
  const raw = new URL(`v1alpha1/builds/${id}/logs`, root).href;
  useEffect(() => {
    const jump = () => {
      follow(false);
      go(linked());
    };
    addEventListener("hashchange", jump);
    return () => removeEventListener("hashchange", jump);
  }, []);
  useEffect(() => {
    if (follows && !what && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [size, follows]);
  const isThere = all.some((l) => l.n === at);
  useEffect(() => {
    const line = at && document.getElementById(`L${at}`);
    if (line && box.current) box.current.scrollTop = line.offsetTop - box.current.clientHeight / 3;
  }, [at, isThere, what]);

  /** Goes to another match. @param {number} step */
  const turn = (step) => {
    if (!found.length) return;
    const now = found.indexOf(at);
    const next = now >= 0 ? (now + step + found.length) % found.length : step > 0 ? Math.max(0, found.findIndex((n) => n > at)) : found.length - 1;
    follow(false);
    go(found[next]);
  };
  const place = found.indexOf(at) + 1;
  const lines = at && isThere && all.length > most ? around(all, at) : all.slice(-most);
  return html`<section aria-labelledby="log-title">
    <div class="head"><h2 id="log-title">Log</h2><span class="links">
      <a href=${raw}>Raw</a><a href=${raw} download=${`build-${id}.log`}>Download</a></span></div>
    <div class="bar"><input type="text" class="find" aria-label="Find in the log" placeholder="Find in the log" autocapitalize="none" autocomplete="off" spellcheck=${false} value=${typed}
        onInput=${(/** @type {any} */ e) => {
          type(e.currentTarget.value);
          go(0);
        }}
        onKeyDown=${(/** @type {KeyboardEvent} */ e) => {
          if (e.key !== "Enter") return;
          e.preventDefault();
          turn(e.shiftKey ? -1 : 1);
        }} />
      <span class="note" role="status">${!what ? "" : !found.length ? "No line contains this text." : place ? `${place.toLocaleString()} of ${count(found.length, "line")}` : count(found.length, "line")}</span>
      ${found.length > 0 && html`<button type="button" class="pill" aria-label="Previous match" onClick=${() => turn(-1)}>↑</button><button type="button" class="pill" aria-label="Next match" onClick=${() => turn(1)}>↓</button>`}
      <button type="button" class="pill" aria-pressed=${wraps} onClick=${() => wrap(!wraps)}>Wrap</button>
      ${all.some((l) => l.at) && html`<button type="button" class="pill" aria-pressed=${times} onClick=${() => {
        show(!times);
        storeTimes(!times);
      }}>Times</button>`}
      ${!ended && html`<button type="button" class="pill" aria-pressed=${follows} onClick=${() => follow(!follows)}>Follow</button>`}</div>
    ${lines.length < size && html`<p class="note">These are the lines ${lines[0].n.toLocaleString()} to ${lines[lines.length - 1].n.toLocaleString()}; the search finds all.</p>`}
    <div class=${`log${wraps ? "" : " long"}${times ? " times" : ""}`} ref=${box} tabindex="0" role="log" aria-label="Log of the build" aria-live="off"
      onScroll=${(/** @type {any} */ e) => {
        const b = e.currentTarget;
        follow(b.scrollHeight - b.scrollTop - b.clientHeight < 40);
      }}><${Rows} lines=${lines} ended=${ended} what=${what} at=${at} /></div>
    ${watch.problem.value && html`<p class="note problem" role="status">${watch.problem.value}</p>`}
  </section>`;
}
