// The tasks of a run, page by page.
import { useState } from "preact/hooks";
import { call } from "./api.js";
import { duration, html, memory, moment, size } from "./html.js";
import { Pager, useAgain, useLoad, Waiting } from "./load.js";
import { within } from "./space.js";

const most = 50;

/** @typedef {import("./resources.js").Task} Task */

/** @type {[by: string, title: string][]} */
const orders = [["taskId", "number"], ["name", "name"], ["status", "state"], ["submit", "submitted"], ["start", "begun"], ["complete", "ended"]];

/** @type {Record<string, [kind: string, title: string]>} */
const states = {
  NEW: ["", "Pending"], SUBMITTED: ["", "Submitted"], RUNNING: ["running", "Running"], COMPLETED: ["good", "Succeeded"], CACHED: ["good", "Cached"], FAILED: ["bad", "Failed"], ABORTED: ["", "Aborted"],
};

/** @param {{task: Task}} props */
function Details({ task: t }) {
  const rows = [
    ["Submitted", t.submit && moment(t.submit)], ["Begun", t.start && moment(t.start)], ["Ended", t.complete && moment(t.complete)], ["Ran", t.realtime && duration(t.realtime / 1000)],
    ["Processors", t.cpus && `${t.cpus} requested${t.pcpu ? `, ${(t.pcpu / 100).toFixed(1)} kept busy` : ""}`],
    ["Memory", t.memory && `${memory(t.memory)} requested${t.peakRss ? `, ${memory(t.peakRss)} at most` : ""}`],
    ["Read, written", t.readBytes !== undefined && t.readBytes !== null && `${size(t.readBytes)}, ${size(t.writeBytes ?? 0)}`],
    ["Exit", t.exit === null || t.exit === undefined ? "" : String(t.exit)], ["Attempt", t.attempt && t.attempt > 1 && String(t.attempt)], ["Where", [t.executor, t.queue, t.hostname].filter(Boolean).join(" · ")],
    ["Container", t.container], ["Folder", t.workdir], ["Hash", t.hash],
  ];
  return html`<dl class="facts">${rows.filter(([, v]) => v).map(([k, v]) => html`<dt key=${k}>${k}</dt><dd>${v}</dd>`)}</dl>
    ${t.script && html`<pre class="source" tabindex="0" aria-label=${`Script of ${t.name || t.process}`}>${t.script}</pre>`}`;
}

/** @param {{task: Task}} props */
function Row({ task: t }) {
  const [kind, title] = states[t.status] ?? ["", t.status];
  const [open, turn] = useState(false);
  return html`<li><details onToggle=${(/** @type {any} */ e) => turn(e.currentTarget.open)}><summary><span class="what">${t.name || t.process || `Task ${t.taskId}`}</span>
    <span class="note number">${t.realtime ? duration(t.realtime / 1000) : ""}</span><span class=${`state ${kind}`}>${title}${t.exit ? ` (${t.exit})` : ""}</span></summary>
    ${open && html`<${Details} task=${t} />`}</details></li>`;
}

/** @param {{id: string, space: number, live: boolean}} props */
export function Tasks({ id, space, live }) {
  const [offset, go] = useState(0);
  const [typed, type] = useState("");
  const [search, find] = useState("");
  const [order, sort] = useState("taskId");
  const path = `api/workflow/${id}/tasks?max=${most}&offset=${offset}&sortBy=${order}&search=${encodeURIComponent(search)}${within(space, "&")}`;
  const list = useLoad((signal) => call("GET", path, { signal }), [path, live]);
  useAgain(list.again, live ? 6000 : 0);
  /** @type {Task[]} */
  const tasks = (list.value?.tasks ?? []).map((/** @type {{task: Task}} */ t) => t.task);
  return html`<section><h2>Tasks</h2>
    <form class="look" role="search" onSubmit=${(/** @type {Event} */ e) => {
      e.preventDefault();
      go(0);
      find(typed.trim());
    }}><label for="task">Find by name, process, hash or state</label><div class="line"><input id="task" type="search" autocapitalize="none" autocomplete="off" spellcheck=${false} placeholder="FAILED" value=${typed}
        onInput=${(/** @type {any} */ e) => type(e.currentTarget.value)} /><select aria-label="In the order of" value=${order} onChange=${(/** @type {any} */ e) => {
          go(0);
          sort(e.currentTarget.value);
        }}>${orders.map(([by, title]) => html`<option key=${by} value=${by}>by ${title}</option>`)}</select><button class="button second">Find</button></div></form>
    <${Waiting} of=${list} what="The tasks" />
    ${list.value && !tasks.length && html`<p class="empty">${search ? "No task matches." : "No task yet."}</p>`}
    ${tasks.length > 0 && html`<ul class="rows tasks">${tasks.map((t) => html`<${Row} key=${t.taskId} task=${t} />`)}</ul>
      <${Pager} what="tasks" offset=${offset} most=${most} total=${list.value.total ?? 0} go=${go} />`}</section>`;
}
