// Small plots, each with a table of its values.
import { html } from "./html.js";

/**
 * The table of a plot's values.
 * @param {{title: string, head: string[], rows: (string | number)[][]}} props
 */
function Behind({ title, head, rows }) {
  return html`<details class="behind"><summary>As a table<span class="unseen">: ${title}</span></summary>
    <div class="scroll" tabindex="0" role="region" aria-label=${title}><table>
      <thead><tr>${head.map((h, i) => html`<th scope="col" key=${h} class=${i ? "number" : ""}>${h}</th>`)}</tr></thead>
      <tbody>${rows.map((r) => html`<tr key=${r[0]}>${r.map((v, i) => html`<td class=${i ? "number" : ""}>${v}</td>`)}</tr>`)}</tbody></table></div></details>`;
}

/** The smallest round number that is not below n: 1, 2, 3, 4, 5, 6, 8 or 10 times a power of ten. @param {number} n */
export function ceiling(n) {
  if (!(n > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(n));
  return ([1, 2, 3, 4, 5, 6, 8].find((s) => s * power >= n * 0.999) ?? 10) * power;
}

/** The number of intervals of an axis that ends at a round number. @param {number} top */
function intervals(top) {
  const lead = Math.round(top / 10 ** Math.floor(Math.log10(top)));
  return { 1: 4, 2: 4, 3: 3, 4: 4, 5: 5, 6: 3, 8: 4, 10: 4 }[lead] ?? 4;
}

/** The title of a plot. @param {{title: string, note: string}} props */
function Caption({ title, note }) {
  return html`<figcaption><strong>${title}</strong> <span class="note">${note}</span></figcaption>`;
}

/** A plot without values. @param {{title: string, note: string, empty: string}} props */
const Empty = ({ title, note, empty }) => html`<figure class="plot"><${Caption} title=${title} note=${note} /><p class="empty">${empty}</p></figure>`;

/**
 * The distribution of values as box plots, one for each name: the range with ends, a box for the
 * middle half, the median as a line in it, and the requested amount as a dashed tick.
 * @typedef {{name: string, count: number, min: number, q1: number, median: number, q3: number, max: number, asked?: number}} Spread
 * @param {{title: string, note: string, rows: Spread[], names: Map<string, string>, say: (n: number) => string, end?: (n: number) => number, parts?: (top: number) => number}} props
 *   names are short names; say formats a value with its unit; end returns the end of the axis for a largest value, and parts its number of intervals
 */
export function Spreads({ title, note, rows, names, say, end = ceiling, parts = intervals }) {
  if (!rows.length) return html`<${Empty} title=${title} note=${note} empty="No task has reported this." />`;
  const top = end(Math.max(...rows.map((r) => Math.max(r.max, r.asked ?? 0))));
  /** @param {number} v */
  const x = (v) => Math.min(100, (100 * v) / top);
  const asked = rows.some((r) => r.asked);
  const n = parts(top), ticks = Array.from({ length: n + 1 }, (_, i) => i / n);
  return html`<figure class="plot"><${Caption} title=${title} note=${note} />
    <div class="spreads" aria-hidden="true">${rows.map((r) => html`<span class="name" title=${r.name} key=${`n-${r.name}`}>${names.get(r.name) ?? r.name}</span>
      <svg viewBox="0 0 100 10" preserveAspectRatio="none" key=${r.name}>
        ${ticks.map((t) => html`<line class="axis" x1=${100 * t} x2=${100 * t} y1="-5" y2="15" />`)}
        <line class="range" x1=${x(r.min)} x2=${x(r.max)} y1="5" y2="5" /><line class="range" x1=${x(r.min)} x2=${x(r.min)} y1="3" y2="7" /><line class="range" x1=${x(r.max)} x2=${x(r.max)} y1="3" y2="7" />
        <rect class="half" x=${x(r.q1)} width=${Math.max(x(r.q3) - x(r.q1), 0.3)} y="1" height="8" />
        <line class="median" x1=${x(r.median)} x2=${x(r.median)} y1="1" y2="9" />
        ${r.asked ? html`<line class="asked" x1=${Math.min(99.7, x(r.asked))} x2=${Math.min(99.7, x(r.asked))} y1="0" y2="10" />` : null}</svg>
      <span class="number">${say(r.median)}</span>`)}
      <span></span><span class="ticks">${ticks.map((t) => html`<span key=${t} style=${{ left: `${100 * t}%` }}>${t ? say(top * t) : "0"}</span>`)}</span><span class="number note">median</span></div>
    <${Behind} title=${title} head=${["Process", "Tasks", "Least", "Median", "Most", ...(asked ? ["Requested"] : [])]}
      rows=${rows.map((r) => [r.name, r.count, say(r.min), say(r.median), say(r.max), ...(asked ? [r.asked ? say(r.asked) : ""] : [])])} /></figure>`;
}

/** The marks of a vertical axis from the top, with lines at the same heights. @param {{top: number, say: (n: number) => string}} props */
const Heights = ({ top, say }) => html`<span class="heights"><span>${say(top)}</span><span>${say(top / 2)}</span><span>${say(0)}</span></span>`;

/** Lines at the marks of a vertical axis. */
const grid = [0, 20, 40].map((y) => html`<line class="axis" x1="0" x2="100" y1=${y} y2=${y} />`);

/**
 * A value over time; each value holds until the next point.
 * @param {{title: string, note: string, points: [at: number, value: number][], say: (n: number) => string, when: (at: number) => string}} props
 */
export function Course({ title, note, points, say, when }) {
  if (points.length < 2) return html`<${Empty} title=${title} note=${note} empty="No task has begun." />`;
  const from = points[0][0], long = points[points.length - 1][0] - from || 1;
  const top = 2 * ceiling(Math.max(...points.map(([, v]) => v)) / 2);
  let d = `M0 40`, was = 0;
  for (const [at, v] of points) {
    const x = ((100 * (at - from)) / long).toFixed(2);
    d += `L${x} ${(40 - (40 * was) / top).toFixed(2)}L${x} ${(40 - (40 * v) / top).toFixed(2)}`;
    was = v;
  }
  const every = Math.ceil(points.length / 100); // limits the table to about 100 rows
  return html`<figure class="plot"><${Caption} title=${title} note=${note} />
    <div class="course" aria-hidden="true"><${Heights} top=${top} say=${say} /><svg viewBox="0 0 100 40" preserveAspectRatio="none">${grid}<path class="area" d=${`${d}L100 40Z`} /></svg>
      <span class="ends"><span>${when(from)}</span><span>${when(from + long / 2)}</span><span>${when(from + long)}</span></span></div>
    <${Behind} title=${title} head=${["Time", title]} rows=${points.filter((_, i) => i % every === 0).map(([at, v]) => [when(at), say(v)])} /></figure>`;
}

/**
 * A bar for each name, for example for each day.
 * @param {{title: string, note: string, bars: {name: string, value: number}[], say: (n: number) => string, what: string}} props what
 *   is the heading of the names
 */
export function Bars({ title, note, bars, say, what }) {
  if (!bars.some((b) => b.value > 0)) return html`<${Empty} title=${title} note=${note} empty="Nothing yet." />`;
  const top = ceiling(Math.max(...bars.map((b) => b.value)));
  const wide = 100 / bars.length;
  return html`<figure class="plot"><${Caption} title=${title} note=${note} />
    <div class="course" aria-hidden="true"><span class="upto">${say(top)}</span><svg viewBox="0 0 100 40" preserveAspectRatio="none">
      ${bars.map((b, i) => html`<rect key=${b.name} class="column" x=${i * wide + wide * 0.12} width=${wide * 0.76} y=${40 - (40 * b.value) / top} height=${(40 * b.value) / top} />`)}</svg>
      <span class="ends"><span>${bars[0]?.name}</span><span>${bars.at(-1)?.name}</span></span></div>
    <${Behind} title=${title} head=${[what, title]} rows=${bars.map((b) => [b.name, say(b.value)])} /></figure>`;
}
