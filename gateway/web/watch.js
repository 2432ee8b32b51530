// A running build: its phases, its log and its end, from server-sent events.
import { batch, signal } from "@preact/signals";
import { call, root } from "./api.js";

/** The number of log lines that are shown at once. */
export const most = 5000;

/**
 * @typedef {{succeeded: boolean, reasonCode?: string, message?: string}} End
 * @typedef {{n: number, text: string, at: string, shown?: any}} Line a log line, its number, its time, which is "" if it is
 *   unknown, and its rendered HTML
 */

export class Watch {
  /** @param {string} id */
  constructor(id) {
    this.id = id;
    /** The phases so far, each once. */
    this.seen = signal(/** @type {string[]} */ ([]));
    /** @type {Line[]} all lines, each with its number */
    this.all = [];
    /** The number of lines, which changes when there are more. */
    this.size = signal(0);
    this.end = signal(/** @type {End | undefined} */ (undefined));
    /** The place in the queue; 0 if the build is not queued or the place is unknown. */
    this.place = signal(0);
    /** The estimated start and end, in milliseconds since the epoch; 0 if unknown. */
    this.expected = signal({ start: 0, end: 0 });
    /** Why no events arrive. */
    this.problem = signal("");
    /** @type {Line[]} lines to be shown with the next frame */
    this.fresh = [];
    this.last = "";
    /** The time of the next lines; "" if it is unknown. */
    this.at = "";
    /** @type {number | undefined} the pending animation frame */
    this.soon = undefined;
    this.connect();
    void this.wait();
  }

  connect() {
    const from = new URL(`v1alpha1/builds/${encodeURIComponent(this.id)}/events`, root);
    from.searchParams.set("times", "true");
    this.at = ""; // each connection begins with the time of its first line
    if (this.last) from.searchParams.set("lastEventId", this.last);
    this.source = new EventSource(from);
    this.source.onopen = () => (this.problem.value = "");
    this.source.addEventListener("phase", (e) => this.begin(e.data));
    this.source.addEventListener("time", (e) => (this.at = e.data));
    this.source.addEventListener("log", (e) => this.line(e));
    this.source.addEventListener("done", (e) => this.done(JSON.parse(e.data)));
    this.source.onerror = () => {
      this.problem.value = "The connection was lost. The build continues, and this page reconnects.";
      if (this.source?.readyState === EventSource.CLOSED) this.again = setTimeout(() => this.connect(), 3000);
    };
  }

  /** Polls the place in the queue until a worker has started the build, then once for the estimate, and again when the estimate has passed. */
  async wait() {
    const s = await call("GET", `v1alpha1/builds/${encodeURIComponent(this.id)}/status`).catch(() => undefined);
    if (this.closed || this.end.value) return;
    this.place.value = s?.position ?? 0;
    /** @param {number | undefined} seconds */
    const at = (seconds) => (seconds === undefined ? 0 : Date.now() + seconds * 1000);
    this.expected.value = { start: at(s?.expectedStart), end: at(s?.expectedEnd) };
    if (s?.status === "PENDING" && !s.position && !this.seen.value.length) this.begin("prepare");
    if (s?.position || !s) this.later = setTimeout(() => this.wait(), 3000);
    else if (s.expectedEnd !== undefined) this.later = setTimeout(() => this.wait(), Math.max(3000, s.expectedEnd * 1000));
  }

  /** @param {string} phase */
  begin(phase) {
    this.place.value = 0;
    if (!this.seen.value.includes(phase)) this.seen.value = [...this.seen.value, phase];
  }

  /** @param {MessageEvent} e */
  line(e) {
    this.last = e.lastEventId;
    this.fresh.push({ n: Number(e.lastEventId), text: e.data, at: this.at });
    this.soon ??= requestAnimationFrame(() => this.show());
  }

  show() {
    this.soon = undefined;
    for (const line of this.fresh) this.all.push(line);
    this.fresh = [];
    this.size.value = this.all.length;
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
    this.closed = true;
    clearTimeout(this.again);
    clearTimeout(this.later);
    if (this.soon) cancelAnimationFrame(this.soon);
    this.source?.close();
  }
}
