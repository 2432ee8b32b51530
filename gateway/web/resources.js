// The time and resources that the tasks of a run used.
import { call } from "./api.js";
import { duration, html, memory, moment } from "./html.js";
import { useAgain, useLoad, Waiting } from "./load.js";
import { ceiling, Course, Spreads } from "./plot.js";
import { within } from "./space.js";

/**
 * @typedef {{taskId: number, name: string, process: string, tag?: string, hash?: string, status: string, submit?: string, start?: string, complete?: string,
 *   duration?: number, realtime?: number, pcpu?: number, cpus?: number, memory?: number, peakRss?: number, exit?: number | null, attempt?: number, script?: string, errorAction?: string, errorMessage?: string,
 *   workdir?: string, container?: string, executor?: string, hostname?: string, queue?: string, readBytes?: number, writeBytes?: number}} Task
 * @typedef {import("./plot.js").Spread} Spread
 */

/** The largest number of tasks in the plots; a page of the API has at most 1000. */
const most = 3000;

/** The largest number of processes in a plot. */
const lines = 20;

/** @param {string} id @param {number} space @param {AbortSignal} signal @returns {Promise<Task[]>} */
async function all(id, space, signal) {
  /** @type {Task[]} */
  const tasks = [];
  for (;;) {
    const page = await call("GET", `api/workflow/${id}/tasks?max=1000&offset=${tasks.length}${within(space, "&")}`, { signal });
    tasks.push(...page.tasks.map((/** @type {{task: Task}} */ t) => t.task));
    if (tasks.length >= Math.min(page.total, most) || !page.tasks.length) return tasks;
  }
}

/**
 * Computes the distribution of a value for each process.
 * @param {Task[]} tasks
 * @param {(t: Task) => number | undefined} value
 * @param {(t: Task) => number | undefined} [asked]
 * @returns {Spread[]}
 */
function spread(tasks, value, asked = () => undefined) {
  /** @type {Map<string, {values: number[], asked: number}>} */
  const by = new Map();
  for (const t of tasks) {
    const v = value(t);
    if (typeof v !== "number" || !(v >= 0)) continue;
    const of = by.get(t.process) ?? { values: [], asked: 0 };
    of.values.push(v);
    of.asked = Math.max(of.asked, asked(t) || 0);
    by.set(t.process, of);
  }
  return [...by].map(([name, of]) => {
    const v = of.values.sort((a, b) => a - b);
    /** @param {number} part */
    const at = (part) => v[Math.round(part * (v.length - 1))];
    return { name, count: v.length, min: at(0), q1: at(0.25), median: at(0.5), q3: at(0.75), max: at(1), asked: of.asked || undefined };
  }).sort((a, b) => b.median - a.median).slice(0, lines);
}

/** The number of concurrent tasks over time. @param {Task[]} tasks @returns {[number, number][]} */
function atOnce(tasks) {
  /** @type {Map<number, number>} */
  const steps = new Map();
  /** @param {number} at @param {number} by */
  const step = (at, by) => steps.set(at, (steps.get(at) ?? 0) + by);
  for (const t of tasks) {
    const from = Date.parse(t.start ?? ""), to = t.complete ? Date.parse(t.complete) : t.status === "RUNNING" ? Date.now() : NaN;
    if (!(to >= from)) continue;
    step(from, 1);
    step(to, -1);
  }
  let now = 0;
  return [...steps].sort(([a], [b]) => a - b).map(([at, by]) => [at, (now += by)]);
}

/** Rounds a number of seconds up to the end of an axis. @param {number} n */
function until(n) {
  return [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400].find((s) => s >= n) ?? ceiling(n / 86400) * 86400;
}

/** The number of intervals of an axis of seconds, so that each is a usual length. @param {number} top */
const timeParts = (top) => [4, 5, 3].find((n) => until(top / n) === top / n) ?? 4;

/** Rounds bytes up to the end of an axis, in whole binary units. @param {number} n */
function bytesEnd(n) {
  const unit = n < 2 ** 30 ? 2 ** 20 : 2 ** 30;
  return ceiling(n / unit) * unit;
}

/** The time of day, with the date if the points span several days. @param {number} at @param {[number, number][]} points */
function clock(at, points) {
  const one = new Date(points[0][0]).toDateString() === new Date(points[points.length - 1][0]).toDateString();
  return one ? new Date(at).toLocaleTimeString(undefined, { timeStyle: "short" }) : moment(new Date(at).toISOString());
}

const whole = (/** @type {number} */ n) => n.toLocaleString();
const cores = (/** @type {number} */ n) => `${n.toLocaleString(undefined, { maximumFractionDigits: 1 })} ${n === 1 ? "core" : "cores"}`;

/** @param {{id: string, space: number, live: boolean, count: number, names: Map<string, string>}} props count is the number of tasks; names are the short names of the processes */
export function Resources({ id, space, live, count, names }) {
  const got = useLoad((signal) => all(id, space, signal), [id, space, live]);
  useAgain(got.again, live ? 15000 : 0);
  const tasks = got.value ?? [];
  const ended = tasks.filter((t) => t.status === "COMPLETED" || t.status === "FAILED");
  const points = atOnce(tasks);
  if (!count) return null;
  return html`<section><h2>Time and resources</h2>
    <${Waiting} of=${got} what="The resources of the tasks" />
    ${got.value && !ended.length && html`<p class="empty">Shown when the first tasks have ended.</p>`}
    ${tasks.length < count && got.value && html`<p class="note">Drawn from the first ${whole(tasks.length)} of ${whole(count)} tasks.</p>`}
    ${got.value && html`<${Course} title="Tasks at a time" note="from their start and end times" points=${points} say=${whole} when=${(/** @type {number} */ at) => clock(at, points)} />`}
    ${ended.length > 0 && html`<p class="key note" aria-hidden="true"><svg viewBox="0 0 100 10" preserveAspectRatio="none"><line class="range" x1="5" x2="80" y1="5" y2="5" /><rect class="half" x="25" width="30" y="1" height="8" />
        <line class="median" x1="38" x2="38" y1="1" y2="9" /><line class="asked" x1="95" x2="95" y1="0" y2="10" /></svg> range, middle half, median, and the requested amount</p>
      <${Spreads} title="Time" note="that tasks ran" rows=${spread(ended, (t) => t.realtime && t.realtime / 1000)} names=${names} say=${duration} end=${until} parts=${timeParts} />
      <${Spreads} title="Processors" note="that tasks kept busy" rows=${spread(ended, (t) => t.pcpu === undefined || t.pcpu === null ? undefined : t.pcpu / 100, (t) => t.cpus)} names=${names} say=${cores} />
      <${Spreads} title="Memory" note="peak usage of the processes" rows=${spread(ended, (t) => t.peakRss || undefined, (t) => t.memory)} names=${names} say=${memory} end=${bytesEnd} />`}</section>`;
}
