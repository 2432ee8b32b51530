// Runs of workflows, newest first.
import { useEffect, useState } from "preact/hooks";
import { call, root } from "./api.js";
import { duration, html, moment } from "./html.js";
import { Pager, useAgain, useLoad, Waiting } from "./load.js";
import { me } from "./me.js";
import { Pills } from "./pills.js";
import { offsetOf, useQuery } from "./query.js";
import { Spaces, within } from "./space.js";
import { done, Tally, total } from "./tally.js";

const most = 25;

/**
 * @typedef {{id: string, status: string, runName: string, projectName?: string, repository?: string, revision?: string, commitId?: string, userName?: string,
 *   launchDir?: string, params?: Record<string, unknown>, configText?: string,
 *   submit: string, start?: string, complete?: string, duration?: number, commandLine?: string, workDir?: string, profile?: string, errorMessage?: string,
 *   errorReport?: string, nextflow?: {version?: string}, containerEngine?: string}} Run
 * @typedef {{workflow: Run, orgName: string | null, workspaceName: string | null, progress?: {workflowProgress: import("./tally.js").Load}}} Item
 */

/** @type {Record<string, [kind: string, title: string]>} */
const states = {
  SUBMITTED: ["running", "Starting"], RUNNING: ["running", "Running"], SUCCEEDED: ["good", "Succeeded"], FAILED: ["bad", "Failed"], CANCELLED: ["", "Cancelled"],
  UNKNOWN: ["", "Not reporting"],
};

/** Reports whether a run may still change. @param {string} status */
export const isLive = (status) => status === "SUBMITTED" || status === "RUNNING" || status === "UNKNOWN";

/** Reports whether a run failed, whatever became of its tasks. @param {Run} r */
export const hasFailed = (r) => r.status === "FAILED";

/** @param {{status: string}} props */
export function State({ status }) {
  const [kind, title] = states[status] ?? ["", status];
  return html`<span class=${`state ${kind}`}>${title}</span>`;
}

/** The duration of a run so far, in seconds. @param {Run} r */
export function took(r) {
  if (r.duration) return r.duration / 1000;
  const from = Date.parse(r.start ?? r.submit), to = r.complete ? Date.parse(r.complete) : isLive(r.status) ? Date.now() : NaN;
  return to >= from ? (to - from) / 1000 : undefined;
}

/** The page of a run: the watchUrl that its client received. @param {Item} item */
function pageOf({ workflow, orgName, workspaceName }) {
  const at = workspaceName ? `orgs/${encodeURIComponent(orgName ?? "")}/workspaces/${encodeURIComponent(workspaceName)}` : `user/${encodeURIComponent(me.peek()?.userName ?? "")}`;
  return new URL(`${at}/watch/${encodeURIComponent(workflow.id)}`, root).href;
}

/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const units = [["day", 86400], ["hour", 3600], ["minute", 60]];

/** How long ago a time of the last days was; the date of earlier ones. @param {string} iso */
function since(iso) {
  const seconds = (Date.now() - Date.parse(iso)) / 1000;
  if (!(seconds >= 0 && seconds < 7 * 86400)) return moment(iso);
  const [unit, long] = units.find(([, n]) => seconds >= n) ?? ["minute", 60];
  return new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(-Math.floor(seconds / long), unit).replace("this minute", "just now");
}

/** @param {{item: Item}} props */
function Row({ item }) {
  const { workflow: r, progress } = item;
  const time = took(r), load = progress?.workflowProgress, all = load ? total(load) : 0;
  return html`<li><${State} status=${r.status} />
    <div class="what"><a href=${pageOf(item)}>${r.runName || r.id}</a><p class="note">${[r.projectName, r.revision, r.userName].filter(Boolean).join(" · ")}</p></div>
    <div class="progress">${load && html`<${Tally} load=${load} small failed=${hasFailed(r)} />`}<span class="note">${load && all ? `${done(load).toLocaleString()} of ${all.toLocaleString()} tasks` : isLive(r.status) ? "No task yet" : "No task"}</span></div>
    <div class="when note"><time datetime=${r.submit} title=${moment(r.submit)}>${since(r.submit)}</time>${time !== undefined && html`<span>${isLive(r.status) ? "for " : "took "}${duration(time)}</span>`}</div></li>`;
}

/** @type {[value: string, title: string][]} */
const filters = [["", "All"], ["FAILED", "Failed"], ["RUNNING", "Running"], ["SUCCEEDED", "Succeeded"], ["CANCELLED", "Cancelled"]];

/** @param {{space: number}} props */
function None({ space }) {
  return html`<p class="empty">No runs here yet. Nextflow reports them with <code>-with-tower</code>, to the address <code>${new URL("api", root).href}</code> and with <a href=${new URL("view/tokens", root).href}>one of your access tokens</a>:</p>
    <pre class="source" tabindex="0" aria-label="How Nextflow reports runs">${`export TOWER_ACCESS_TOKEN=…${space ? `\nexport TOWER_WORKSPACE_ID=${space}` : ""}\nexport TOWER_API_ENDPOINT=${new URL("api", root).href}\nnextflow run hello -with-tower`}</pre>`;
}

export function View() {
  const [query, change] = useQuery();
  const space = Number(query.get("workspace")) || 0, offset = offsetOf(query), find = query.get("find") ?? "";
  const status = filters.find(([value]) => value === query.get("status"))?.[0] ?? "";
  const [typed, type] = useState(find);
  useEffect(() => type(find), [find]); // after Back
  const search = [status && `status:${status}`, find].filter(Boolean).join(" ");
  const list = useLoad((signal) => call("GET", `api/workflow?attributes=progress&max=${most}&offset=${offset}&search=${encodeURIComponent(search)}${within(space, "&")}`, { signal }),
    [space, offset, search]);
  /** @type {Item[]} */
  const runs = list.value?.workflows ?? [];
  useAgain(list.again, runs.some((r) => isLive(r.workflow.status)) ? 5000 : 0);
  return html`<h1>Runs</h1>
    <${Spaces} id=${space} choose=${(/** @type {number} */ to) => change({ workspace: to ? String(to) : "", from: "" })} />
    ${(runs.length > 0 || search) && html`<${Pills} title="State of the runs" value=${status} choose=${(/** @type {string} */ to) => change({ status: to, from: "" })} options=${filters} />
      <form class="look" role="search" onSubmit=${(/** @type {Event} */ e) => {
        e.preventDefault();
        change({ find: typed.trim(), from: "" });
      }}><label for="find">Find by project or name</label><div class="line"><input id="find" type="search" autocapitalize="none" autocomplete="off" spellcheck=${false} placeholder="For example: rnaseq userName:ada after:2026-01-31"
          value=${typed} onInput=${(/** @type {any} */ e) => type(e.currentTarget.value)} /><button class="button second">Find</button></div></form>`}
    <${Waiting} of=${list} what="The runs" />
    ${list.value && !runs.length && (search ? html`<p class="empty">No run matches.</p>` : html`<${None} space=${space} />`)}
    ${runs.length > 0 && html`<ul class="rows runs">${runs.map((r) => html`<${Row} key=${r.workflow.id} item=${r} />`)}</ul>
      <${Pager} what="runs" offset=${offset} most=${most} total=${list.value.totalSize ?? 0} go=${(/** @type {number} */ to) => change({ from: to ? String(to) : "" })} />`}`;
}
