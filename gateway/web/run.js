// The page of a run: its progress, the resources of its tasks, and why it failed if it did. It
// is refreshed while the run is active.
import { useEffect } from "preact/hooks";
import { call, root } from "./api.js";
import { duration, html, memory, moment } from "./html.js";
import { Sure, useAgain, useLoad, Waiting } from "./load.js";
import { Resources } from "./resources.js";
import { isLive, State, took } from "./runs.js";
import { within, works } from "./space.js";
import { Tally, total } from "./tally.js";
import { Tasks } from "./tasks.js";

/** @typedef {import("./runs.js").Run} Run */
/** @typedef {import("./tally.js").Load} Load */

/** @param {{run: Run, load: Load}} props */
function Facts({ run, load }) {
  const time = took(run);
  const rows = [
    ["Project", [run.projectName, run.revision].filter(Boolean).join(" · ")], ["By", run.userName], ["Begun", run.start && moment(run.start)],
    [run.complete ? "Took" : "So far", time !== undefined && duration(time)], ["Processor time", load.cpuTime > 0 && `${(load.cpuTime / 3.6e6).toFixed(1)} core hours, ${Math.round(load.cpuEfficiency ?? 0)} % used`],
    ["Memory", load.memoryReq > 0 && `${Math.round(load.memoryEfficiency ?? 0)} % of the requested memory was used`],
    ["Now", load.loadTasks > 0 && `${load.loadTasks.toLocaleString()} tasks, ${load.loadCpus.toLocaleString()} cores, ${memory(load.loadMemory)}`],
    ["At most", load.peakTasks > 0 && `${load.peakTasks.toLocaleString()} tasks, ${load.peakCpus.toLocaleString()} cores, ${memory(load.peakMemory)}`],
    ["Executor", load.executors?.toString()], ["Nextflow", run.nextflow?.version],
  ];
  return html`<dl class="facts">${rows.filter(([, v]) => v).map(([k, v]) => html`<dt key=${k}>${k}</dt><dd>${v}</dd>`)}</dl>`;
}

/** @param {{processes: Load[]}} props */
function Processes({ processes }) {
  if (!processes.length) return null;
  return html`<section><h2>Processes</h2><ul class="rows processes">${processes.map((p) => html`<li key=${p.process}><div class="what">${p.process}
    <${Tally} load=${p} small /></div><span class="number note">${((p.succeeded ?? 0) + (p.cached ?? 0) + (p.ignored ?? 0)).toLocaleString()} of ${total(p).toLocaleString()}</span></li>`)}</ul></section>`;
}

/** @param {{id: string, space: number}} props */
function Run({ id, space }) {
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
  const page = space ? `?workspace=${space}` : "";
  return html`<p class="note back"><a href=${new URL(`view/runs${page}`, root).href}>Runs</a>${got.value.orgName && ` of ${got.value.orgName} / ${got.value.workspaceName}`}</p>
    <div class="head title"><h1>${run.runName}</h1><${State} status=${run.status} /></div>
    ${got.problem && html`<p class="note problem" role="status">${got.problem} The values shown are older.</p>`}
    ${run.status === "UNKNOWN" && html`<p class="note">The run has not reported for 15 minutes. Its machine may be down.</p>`}
    ${run.errorMessage && html`<div class="failed"><h2>Why it failed</h2><pre class="why" tabindex="0" aria-label="Why it failed">${run.errorReport || run.errorMessage}</pre></div>`}
    <${Tally} load=${load} />
    <${Facts} run=${run} load=${load} />
    ${isLive(run.status) && html`<p><${Sure} label="Mark as cancelled" what=${run.runName} act=${async () => {
      await call("POST", `api/workflow/${id}/cancel${within(space)}`, { body: {} });
      got.again();
    }} /></p>`}
    <${Processes} processes=${processes} />
    <${Resources} id=${id} space=${space} live=${isLive(run.status)} count=${total(load)} />
    <${Tasks} id=${id} space=${space} live=${isLive(run.status)} />
    ${run.commandLine && html`<section><h2>Command</h2><pre class="source" tabindex="0" aria-label="Command">${run.commandLine}</pre>
      <p class="note">${[run.workDir && `Works in ${run.workDir}`, run.profile && `profile ${run.profile}`, run.commitId && `commit ${run.commitId}`].filter(Boolean).join(" · ")}</p></section>`}`;
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
