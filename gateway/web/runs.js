// Runs of workflows, newest first.
import { useState } from "preact/hooks";
import { call, root } from "./api.js";
import { duration, html, moment } from "./html.js";
import { Pager, useAgain, useLoad, Waiting } from "./load.js";
import { me } from "./me.js";
import { Spaces, useSpace, within } from "./space.js";
import { Tally } from "./tally.js";

const most = 25;

/**
 * @typedef {{id: string, status: string, runName: string, projectName?: string, repository?: string, revision?: string, commitId?: string, userName?: string,
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

/** @param {{item: Item}} props */
function Row({ item }) {
  const { workflow: r, progress } = item;
  const time = took(r);
  return html`<li><div class="what"><a href=${pageOf(item)}>${r.runName || r.id}</a>
      <p class="note">${[r.projectName, r.userName, moment(r.submit), time !== undefined && duration(time)].filter(Boolean).join(" · ")}</p>
      ${progress && html`<${Tally} load=${progress.workflowProgress} small />`}</div>
    <${State} status=${r.status} /></li>`;
}

export function View() {
  const [space, choose] = useSpace();
  const [offset, go] = useState(0);
  const [typed, type] = useState("");
  const [search, find] = useState("");
  const list = useLoad((signal) => call("GET", `api/workflow?attributes=progress&max=${most}&offset=${offset}&search=${encodeURIComponent(search)}${within(space, "&")}`, { signal }),
    [space, offset, search]);
  /** @type {Item[]} */
  const runs = list.value?.workflows ?? [];
  useAgain(list.again, runs.some((r) => isLive(r.workflow.status)) ? 5000 : 0);
  return html`<h1>Runs</h1>
    <${Spaces} id=${space} choose=${(/** @type {number} */ to) => {
      choose(to);
      go(0);
    }} />
    ${(runs.length > 0 || search) && html`<form class="look" role="search" onSubmit=${(/** @type {Event} */ e) => {
      e.preventDefault();
      go(0);
      find(typed.trim());
    }}><label for="find">Find</label><div class="line"><input id="find" type="search" autocapitalize="none" autocomplete="off" spellcheck=${false} placeholder="rnaseq status:FAILED after:2026-01-31"
        value=${typed} onInput=${(/** @type {any} */ e) => type(e.currentTarget.value)} /><button class="button second">Find</button></div></form>`}
    <${Waiting} of=${list} what="The runs" />
    ${list.value && !runs.length && (search ? html`<p class="empty">No run matches.</p>`
      : html`<p class="empty">No runs here yet. Nextflow reports them with <code>-with-tower</code>, to the address <code>${new URL("api", root).href}</code> and with <a href=${new URL("view/tokens", root).href}>one of your access tokens</a>:</p>
        <pre class="source" tabindex="0" aria-label="How Nextflow reports runs">${`export TOWER_ACCESS_TOKEN=…${space ? `\nexport TOWER_WORKSPACE_ID=${space}` : ""}\nexport TOWER_API_ENDPOINT=${new URL("api", root).href}\nnextflow run hello -with-tower`}</pre>`)}
    ${runs.length > 0 && html`<ul class="rows">${runs.map((r) => html`<${Row} key=${r.workflow.id} item=${r} />`)}</ul>
      <${Pager} what="runs" offset=${offset} most=${most} total=${list.value.totalSize ?? 0} go=${go} />`}`;
}
