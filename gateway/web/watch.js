// A build while it runs: its phases, its log and its end, as the server sends them.
import { batch, signal } from "@preact/signals";
import { call, root } from "./api.js";

/** How many lines are shown; the whole log is a file. */
export const most = 5000;

/**
 * @typedef {{succeeded: boolean, reason?: string, message?: string}} End
 * @typedef {{n: number, text: string, shown?: any}} Line a line, its number, and what it is shown as
 */

export class Watch {
  /** @param {string} id */
  constructor(id) {
    this.id = id;
    /** The phases so far, each once. */
    this.seen = signal(/** @type {string[]} */ ([]));
    /** The last lines, each with its number. */
    this.lines = signal(/** @type {Line[]} */ ([]));
    this.end = signal(/** @type {End | undefined} */ (undefined));
    /** Why there is nothing new. */
    this.problem = signal("");
    /** @type {Line[]} lines that are not shown yet */
    this.fresh = [];
    this.last = "";
    /** @type {number | undefined} when fresh lines are shown */
    this.soon = undefined;
    this.connect();
  }

  connect() {
    const from = new URL(`v1alpha1/builds/${encodeURIComponent(this.id)}/events`, root);
    if (this.last) from.searchParams.set("lastEventId", this.last);
    this.source = new EventSource(from);
    this.source.onopen = () => (this.problem.value = "");
    this.source.addEventListener("phase", (e) => this.begin(e.data));
    this.source.addEventListener("log", (e) => this.line(e));
    this.source.addEventListener("done", (e) => this.done(JSON.parse(e.data)));
    this.source.onerror = () => {
      this.problem.value = "The connection was lost. The build goes on; this page comes back to it.";
      if (this.source?.readyState === EventSource.CLOSED) this.again = setTimeout(() => this.connect(), 3000);
    };
  }

  /** @param {string} phase */
  begin(phase) {
    if (!this.seen.value.includes(phase)) this.seen.value = [...this.seen.value, phase];
  }

  /** @param {MessageEvent} e */
  line(e) {
    this.last = e.lastEventId;
    if (!this.seen.value.length) this.begin("prepare"); // somebody has taken it up
    this.fresh.push({ n: Number(e.lastEventId), text: e.data });
    this.soon ??= requestAnimationFrame(() => this.show());
  }

  show() {
    this.soon = undefined;
    this.lines.value = [...this.lines.value, ...this.fresh].slice(-most);
    this.fresh = [];
  }

  /** @param {End} end */
  done(end) {
    this.source?.close();
    batch(() => {
      this.show();
      this.problem.value = "";
      this.end.value = end;
    });
  }

  close() {
    clearTimeout(this.again);
    if (this.soon) cancelAnimationFrame(this.soon);
    this.source?.close();
  }
}

/**
 * Says where a build stands in the queue, until it is taken up.
 * @param {string} id
 * @param {(place: number) => void} tell
 * @returns {() => void} ends it
 */
export function queued(id, tell) {
  /** @type {number | undefined} */
  let later;
  let ended = false;
  const ask = async () => {
    const s = await call("GET", `v1alpha1/builds/${encodeURIComponent(id)}/status`).catch(() => undefined);
    if (ended) return;
    tell(s?.position ?? 0);
    if (!s || s.position) later = setTimeout(ask, 3000);
  };
  void ask();
  return () => {
    ended = true;
    clearTimeout(later);
  };
}
