// The number of a run's tasks in each state: as a bar and as text.
import { html } from "./html.js";

/** @typedef {Record<string, number> & {process?: string}} Load the counts of the API */

/** @type {[part: string, title: string][]} in the order of the bar */
const states = [["succeeded", "succeeded"], ["cached", "cached"], ["running", "running"], ["submitted", "submitted"], ["pending", "pending"], ["retried", "failed, retried"],
  ["ignored", "failed, ignored"], ["aborted", "aborted"], ["failed", "failed"]];

/**
 * The number of tasks of each part; the parts do not overlap. In the API, failed includes the tasks that were retried.
 * @param {Load} load
 * @returns {Record<string, number>}
 */
export function parts(load) {
  const of = Object.fromEntries(states.map(([part]) => [part, load[part] ?? 0]));
  of.retried = Math.min(load.retries ?? 0, of.failed);
  of.failed -= of.retried;
  return of;
}

/** The number of tasks, without those that another attempt replaced. @param {Load} load */
export function total(load) {
  const of = parts(load);
  return states.reduce((sum, [part]) => sum + (part === "retried" ? 0 : of[part]), 0);
}

/** The number of tasks whose result is there or is not needed. @param {Load} load */
export const done = (load) => (load.succeeded ?? 0) + (load.cached ?? 0) + (load.ignored ?? 0);

/**
 * A bar of the tasks. The smallest part is wide enough to be seen.
 * @param {{load: Load, small?: boolean, failed?: boolean}} props small omits the legend; failed is set for a run that
 *   failed, which is never shown as succeeded even if all of its tasks are
 */
export function Tally({ load, small, failed = false }) {
  const of = parts(load);
  const there = states.filter(([part]) => of[part] > 0);
  const said = [...there.map(([part, title]) => `${of[part].toLocaleString()} ${title}`), ...(failed ? ["the run failed"] : [])].join(", ");
  return html`<div class=${`tally${small ? " thin" : ""}${failed ? " stopped" : ""}`} role="img" aria-label=${said ? `Tasks: ${said}` : "No task yet"} title=${said}>
      ${there.map(([part]) => html`<span key=${part} class=${`part-${part}`} style=${{ flexGrow: of[part] }}></span>`)}
      ${failed && !of.failed && html`<span key="end" class="end"></span>`}</div>
    ${!small && (there.length > 0 ? html`<ul class="legend">${there.map(([part, title]) => html`<li key=${part}><span class=${`dot part-${part}`} aria-hidden="true"></span>${of[part].toLocaleString()} ${title}</li>`)}</ul>`
      : html`<p class="note">No task yet.</p>`)}`;
}
