// The page of a run: its progress, why it failed if it did, its tasks, and the resources that they used. It
// is refreshed while the run is active.
import { useEffect } from "preact/hooks";
import { call, root } from "./api.js";
import { Block } from "./block.js";
import { duration, html, memory, moment } from "./html.js";
import { Sure, useAgain, useLoad, Waiting } from "./load.js";
import { Launch } from "./parameters.js";
import { Processes, shortNames } from "./processes.js";
import { useQuery } from "./query.js";
import { Resources } from "./resources.js";
import { hasFailed, isLive, State, took } from "./runs.js";
import { within, works } from "./space.js";
import { Tally, total } from "./tally.js";
import { Tasks } from "./tasks.js";

/** @typedef {import("./runs.js").Run} Run */
/** @typedef {import("./tally.js").Load} Load */

/** The number of lines of a command's error output that are shown; the report has all. */
const most = 20;

/** @param {{run: Run, load: Load}} props */
function Facts({ run, load }) {
  const rows = [
    ["Processor time", load.cpuTime > 0 && `${(load.cpuTime / 3.6e6).toFixed(1)} core hours, ${Math.round(load.cpuEfficiency ?? 0)} % used`],
    ["Memory", load.memoryReq > 0 && `${Math.round(load.memoryEfficiency ?? 0)} % of the request used`],
    ["Now", load.loadTasks > 0 && `${load.loadTasks.toLocaleString()} tasks, ${load.loadCpus.toLocaleString()} cores, ${memory(load.loadMemory)}`],
    ["At most", load.peakTasks > 0 && `${load.peakTasks.toLocaleString()} tasks, ${load.peakCpus.toLocaleString()} cores, ${memory(load.peakMemory)}`],
    ["Executor", load.executors?.toString().replaceAll(",", ", ")], ["Nextflow", run.nextflow?.version],
  ];
  return html`<dl class="tiles">${rows.filter(([, v]) => v).map(([k, v]) => html`<div key=${k}><dt>${k}</dt><dd>${v}</dd></div>`)}</dl>`;
}

/** @param {{run: Run}} props */
function About({ run }) {
  const time = took(run);
  const facts = [run.projectName, run.revision, run.userName && `by ${run.userName}`, run.start && `begun ${moment(run.start)}`, time !== undefined && `${run.complete ? "took" : "running for"} ${duration(time)}`];
  return html`<p class="about">${facts.filter(Boolean).join(" · ")}</p>`;
}

/** A section of Nextflow's error report, without its indentation; "" without such a section. @param {string} report @param {string} title */
function sectionOf(report, title) {
  const lines = report.split("\n");
  const from = lines.indexOf(`${title}:`) + 1;
  if (!from) return "";
  const end = lines.findIndex((l, i) => i >= from && /^\S/.test(l));
  return lines.slice(from, end < 0 ? undefined : end).map((l) => l.replace(/^ {2}/, "")).join("\n").trim();
}

/** @param {{run: Run}} props */
function Why({ run }) {
  const text = run.errorReport || run.errorMessage;
  if (run.status !== "FAILED" && !text) return null;
  if (!text) return html`<div class="failed"><h2>It failed</h2><p>The run has reported no reason. The log of Nextflow, <code>.nextflow.log</code>, is in the folder where it was launched.</p></div>`;
  const cause = sectionOf(text, "Caused by"), printed = sectionOf(text, "Command error");
  if (!cause) return html`<div class="failed"><${Block} title="Why it failed" text=${text} /></div>`;
  return html`<div class="failed"><h2>Why it failed</h2><p class="why">${cause}</p>
    ${printed && html`<pre class="source wrapped" tabindex="0" aria-label="Error output of the command">${printed.split("\n").slice(-most).join("\n")}</pre>`}
    <details><summary>The whole report</summary><${Block} title="Report" level=${3} text=${text} /></details></div>`;
}

/** @param {{id: string, space: number}} props */
function Run({ id, space }) {
  const [query, change] = useQuery();
  const got = useLoad((signal) => call("GET", `api/workflow/${id}${within(space)}`, { signal }), [id, space]);
  /** @type {Run | undefined} */
  const run = got.value?.workflow;
  useAgain(got.again, run && isLive(run.status) ? 4000 : 0);
  useEffect(() => {
    if (run) document.title = `${run.runName} · Slipway`;
  }, [run?.runName]);
  if (!run) return html`<h1>Run</h1><${Waiting} of=${got} what="The run" />`;
  /** @type {{workflowProgress: Load, processesProgress: Load[]}} */
  const { workflowProgress: load, processesProgress: processes } = got.value.progress;
  const names = shortNames(processes.map((p) => p.process ?? ""));
  const page = space ? `?workspace=${space}` : "", live = isLive(run.status), process = query.get("process") ?? "";
  return html`<div class="run"><p class="note back"><a href=${new URL(`view/runs${page}`, root).href}>Runs</a>${got.value.orgName && ` of ${got.value.orgName} / ${got.value.workspaceName}`}</p>
    <div class="head title"><h1>${run.runName}</h1><${State} status=${run.status} /></div>
    <${About} run=${run} />
    ${got.problem && html`<p class="note problem" role="status">${got.problem} The values shown are older.</p>`}
    ${run.status === "UNKNOWN" && html`<p class="note">The run has not reported for 15 minutes. Its machine may be down.</p>`}
    <${Tally} load=${load} failed=${hasFailed(run)} />
    <${Facts} run=${run} load=${load} />
    ${live && html`<p><${Sure} label="Mark as cancelled" what=${run.runName} act=${async () => {
      await call("POST", `api/workflow/${id}/cancel${within(space)}`, { body: {} });
      got.again();
    }} /></p>`}
    <${Why} run=${run} />
    <div class=${processes.length ? "panes" : ""}>
      <${Processes} processes=${processes} names=${names} chosen=${process} choose=${(/** @type {string} */ name) => change({ process: name, from: "" })} />
      <${Tasks} id=${id} space=${space} live=${live} names=${names} query=${query} change=${change} load=${process ? processes.find((p) => p.process === process) : load} /></div>
    <${Resources} id=${id} space=${space} live=${live} count=${total(load)} names=${names} />
    <${Launch} run=${run} /></div>`;
}

/** @param {{args: [org: string | undefined, workspace: string | undefined, id: string]}} props */
export function View({ args: [org, workspace, id] }) {
  const list = useLoad(works, []);
  if (!org) return html`<${Run} id=${id} space=${0} />`;
  if (!list.value) return html`<h1>Run</h1><${Waiting} of=${list} what="The run" />`;
  const at = list.value.find((p) => p.orgName === decodeURIComponent(org) && p.workspaceName === decodeURIComponent(workspace ?? ""));
  if (!at) return html`<h1>There is no such run</h1><p class="lead">Or you have no access to its workspace, ${org} / ${workspace}. Its owners can add you.</p>`;
  return html`<${Run} id=${id} space=${at.workspaceId ?? 0} />`;
}
