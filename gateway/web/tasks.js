// The tasks of a run, page by page. The filters are in the address.
import { useEffect, useState } from "preact/hooks";
import { call } from "./api.js";
import { breakable, duration, html } from "./html.js";
import { Pager, useAgain, useLoad, Waiting } from "./load.js";
import { Pills } from "./pills.js";
import { offsetOf } from "./query.js";
import { within } from "./space.js";
import { Details, stateOf } from "./task.js";

const most = 50;

/** @typedef {import("./resources.js").Task} Task */
/** @typedef {import("./tally.js").Load} Load */

/** @type {[by: string, title: string][]} */
const orders = [["outcome", "failed first"], ["taskId", "by number"], ["name", "by name"], ["submit", "by time submitted"], ["start", "by time begun"], ["complete", "by time ended"]];

/** @type {[value: string, title: string, statuses: string, fields: string[], always: boolean][]} */
const filters = [
  ["", "All", "", ["pending", "submitted", "running", "succeeded", "cached", "ignored", "aborted", "failed"], true], ["failed", "Failed", "FAILED", ["failed", "ignored"], true],
  ["running", "Running", "RUNNING", ["running"], true], ["waiting", "Waiting", "NEW,SUBMITTED", ["pending", "submitted"], false], ["succeeded", "Succeeded", "COMPLETED", ["succeeded"], true],
  ["cached", "Cached", "CACHED", ["cached"], true], ["aborted", "Aborted", "ABORTED", ["aborted"], false],
];

/** @param {Load | undefined} load @param {string[]} fields */
const sum = (load, fields) => (load ? fields.reduce((n, field) => n + (load[field] ?? 0), 0) : undefined);

/** @param {{task: Task, short: string, id: string, space: number}} props short is the short name of the process */
function Row({ task: t, short, id, space }) {
  const [kind, title] = stateOf(t);
  const [open, turn] = useState(false);
  const name = t.name || t.process || `Task ${t.taskId}`;
  const isOf = t.process && name.startsWith(t.process);
  return html`<li><details onToggle=${(/** @type {any} */ e) => turn(e.currentTarget.open)}><summary title=${name}><span class=${`state ${kind}`}>${title}</span>
    <span class="what">${isOf ? html`<span class="unseen">${t.process.slice(0, -short.length)}</span>${breakable(short + name.slice(t.process.length))}` : breakable(name)}</span>
    <span class="note number">${[t.exit && `exit ${t.exit}`, t.realtime && duration(t.realtime / 1000)].filter(Boolean).join(" · ")}</span></summary>
    ${open && html`<${Details} task=${t} id=${id} space=${space} />`}</details></li>`;
}

/** @param {{typed: string, find: (text: string) => void, order: string, sort: (by: string) => void}} props */
function Search({ typed: sought, find, order, sort }) {
  const [typed, type] = useState(sought);
  useEffect(() => type(sought), [sought]); // after Back
  return html`<form class="look" role="search" onSubmit=${(/** @type {Event} */ e) => {
    e.preventDefault();
    find(typed.trim());
  }}><label for="task">Find by name, process or hash</label><div class="line"><input id="task" type="search" autocapitalize="none" autocomplete="off" spellcheck=${false} maxlength="200" value=${typed}
      onInput=${(/** @type {any} */ e) => type(e.currentTarget.value)} /><select aria-label="In the order of" value=${order} onChange=${(/** @type {any} */ e) => sort(e.currentTarget.value)}>
      ${orders.map(([by, title]) => html`<option key=${by} value=${by}>${title}</option>`)}</select><button class="button second">Find</button></div></form>`;
}

/**
 * @param {{id: string, space: number, live: boolean, load: Load | undefined, names: Map<string, string>, query: URLSearchParams,
 *   change: (changes: Record<string, string>) => void}} props load has the counts of the run or of the chosen process; names
 *   are the short names of the processes
 */
export function Tasks({ id, space, live, load, names, query, change }) {
  const offset = offsetOf(query), search = query.get("find") ?? "", process = query.get("process") ?? "";
  const filter = filters.find(([value]) => value === query.get("state")) ?? filters[0];
  const usual = sum(load, filters[1][3]) ? "outcome" : "taskId";
  const order = orders.find(([by]) => by === query.get("sort"))?.[0] ?? usual;
  const path = `api/workflow/${id}/tasks?${new URLSearchParams({ max: String(most), offset: String(offset), sortBy: order, search, status: filter[2], process })}${within(space, "&")}`;
  const list = useLoad((signal) => call("GET", path, { signal }), [path, live]);
  useAgain(list.again, live ? 6000 : 0);
  /** @type {Task[]} */
  const tasks = (list.value?.tasks ?? []).map((/** @type {{task: Task}} */ t) => t.task);
  return html`<section class="of-run" aria-labelledby="tasks-title"><h2 id="tasks-title">Tasks${process && html` <span class="soft">of <span title=${process}>${names.get(process) ?? process}</span></span>`}</h2>
    <${Pills} title="State of the tasks" value=${filter[0]} choose=${(/** @type {string} */ state) => change({ state, from: "" })}
      options=${filters.filter((f) => f[4] || f === filter || sum(load, f[3])).map(([value, title, , fields]) => [value, title, sum(load, fields)])} />
    <${Search} typed=${search} find=${(/** @type {string} */ find) => change({ find, from: "" })} order=${order} sort=${(/** @type {string} */ sort) => change({ sort: sort === usual ? "" : sort, from: "" })} />
    <${Waiting} of=${list} what="The tasks" />
    ${list.value && !tasks.length && html`<p class="empty">${search || process || filter[0] ? "No task matches." : "No task yet."}</p>`}
    ${tasks.length > 0 && html`<ul class="rows tasks">${tasks.map((t) => html`<${Row} key=${t.taskId} task=${t} short=${names.get(t.process) ?? t.process} id=${id} space=${space} />`)}</ul>
      <${Pager} what="tasks" offset=${offset} most=${most} total=${list.value.total ?? 0} go=${(/** @type {number} */ to) => change({ from: to ? String(to) : "" })} />`}</section>`;
}
