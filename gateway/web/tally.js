// The number of a run's tasks in each state: as a bar and as text.
import { html } from "./html.js";

/** @typedef {Record<string, number> & {process?: string}} Load the counts of the API */

/** @type {[field: string, title: string][]} in the order of the bar */
const states = [["succeeded", "succeeded"], ["cached", "cached"], ["running", "running"], ["submitted", "submitted"], ["pending", "pending"], ["ignored", "failed, ignored"], ["aborted", "aborted"],
  ["failed", "failed"]];

/** @param {Load} load */
export const total = (load) => states.reduce((sum, [field]) => sum + (load[field] ?? 0), 0);

/** @param {{load: Load, small?: boolean}} props small omits the legend */
export function Tally({ load, small }) {
  const all = total(load);
  const there = states.filter(([field]) => load[field]);
  const said = there.map(([field, title]) => `${load[field].toLocaleString()} ${title}`).join(", ");
  let at = 0;
  if (!all) return small ? null : html`<p class="note">No task yet.</p>`;
  return html`<svg class=${small ? "tally thin" : "tally"} viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label=${`Tasks: ${said}`}>
      ${there.map(([field]) => {
        const wide = (100 * load[field]) / all, from = at;
        at += wide;
        return html`<rect key=${field} class=${field} x=${from} y="0" width=${wide} height="4" />`;
      })}</svg>
    ${!small && html`<ul class="legend">${there.map(([field, title]) => html`<li key=${field}><svg class="dot" viewBox="0 0 1 1" aria-hidden="true"><rect class=${field} width="1" height="1" /></svg>
      ${load[field].toLocaleString()} ${title}</li>`)}</ul>`}`;
}
