// A task of a run: what it used, how it ended, and where its files are.
import { call } from "./api.js";
import { Block } from "./block.js";
import { Copied } from "./copy.js";
import { duration, html, memory, moment, size } from "./html.js";
import { useLoad, Waiting } from "./load.js";
import { within } from "./space.js";

/** @typedef {import("./resources.js").Task} Task */

/** @type {Record<string, [kind: string, title: string]>} */
const states = {
  NEW: ["", "Pending"], SUBMITTED: ["", "Submitted"], RUNNING: ["running", "Running"], COMPLETED: ["good", "Succeeded"], CACHED: ["good", "Cached"], FAILED: ["bad", "Failed"], ABORTED: ["", "Aborted"],
};

/** The state of a task for people. @param {Task} t @returns {[kind: string, title: string]} */
export function stateOf(t) {
  const action = t.status === "FAILED" && t.errorAction?.toUpperCase();
  if (action === "RETRY") return ["", "Failed, retried"];
  if (action === "IGNORE") return ["", "Failed, ignored"];
  return states[t.status] ?? ["", t.status];
}

/** @type {Record<number, string>} */
const exits = {
  126: "a command could not be executed", 127: "a command was not found", 130: "interrupted", 134: "the program aborted", 137: "killed, most often because memory ran out",
  139: "the program accessed invalid memory", 140: "stopped, most often at the time limit", 143: "stopped, for example at the time limit or by a cancellation",
};

/** An exit status with its usual meaning. @param {number} exit */
export const exitText = (exit) => (exits[exit] ? `${exit}: ${exits[exit]}` : String(exit));

/**
 * A command that prints a task's standard error; "" if the folder is not a plain path or URL. The folder is text that
 * the run has reported: it is quoted for the shell, and never contains control characters.
 * @param {string} folder
 */
export function errorCommand(folder) {
  if (/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(folder) || !/^(\/|[a-z][a-z0-9]*:\/\/)/.test(folder)) return "";
  const file = `'${`${folder.replace(/\/$/, "")}/.command.err`.replaceAll("'", `'\\''`)}'`;
  return folder.startsWith("/") ? `tail -n 100 ${file}` : `nextflow fs cat ${file}`;
}

/** @param {{task: Task}} props */
function Files({ task: t }) {
  if (!t.workdir) return null;
  const command = errorCommand(t.workdir);
  return html`<h3 class="minor">Log and files</h3>
    <p class="note">Nextflow does not send the log of a task to this server. It is in the work folder of the task, in <code>.command.err</code> and <code>.command.out</code>:</p>
    <${Copied} text=${t.workdir} what="Work folder" />
    ${command && html`<p class="note">Where the run has its files, this prints the errors:</p><${Copied} text=${command} what="Command that prints the errors" />`}`;
}

/** @param {{task: Task, id: string, space: number}} props task is the task as listed, which may lack its largest fields */
export function Details({ task: listed, id, space }) {
  const got = useLoad((signal) => call("GET", `api/workflow/${id}/task/${listed.taskId}${within(space)}`, { signal }), [id, space, listed.taskId, listed.status]);
  /** @type {Task | undefined} */
  const t = got.value?.task;
  if (!t) return html`<${Waiting} of=${got} what="The task" />`;
  const hasExit = t.exit !== null && t.exit !== undefined;
  const rows = [
    ["Exit status", hasExit && exitText(Number(t.exit))], ["Attempt", t.attempt && t.attempt > 1 && String(t.attempt)],
    ["Submitted", t.submit && moment(t.submit)], ["Begun", t.start && moment(t.start)], ["Ended", t.complete && moment(t.complete)], ["Ran", t.realtime && duration(t.realtime / 1000)],
    ["Processors", t.cpus && `${t.cpus} requested${t.pcpu ? `, ${(t.pcpu / 100).toFixed(1)} used` : ""}`],
    ["Memory", t.memory && `${memory(t.memory)} requested${t.peakRss ? `, ${memory(t.peakRss)} used at most` : ""}`],
    ["Read, written", t.readBytes !== undefined && t.readBytes !== null && `${size(t.readBytes)}, ${size(t.writeBytes ?? 0)}`],
    ["Ran on", [t.executor, t.queue, t.hostname].filter(Boolean).join(" · ")], ["Container", t.container], ["Process", t.process], ["Hash", t.hash],
  ];
  return html`<div class="task">${t.errorMessage && html`<pre class="why" tabindex="0" aria-label="Error of the task">${t.errorMessage}</pre>`}
    <dl class="facts">${rows.filter(([, v]) => v).map(([k, v]) => html`<dt key=${k}>${k}</dt><dd>${v}</dd>`)}</dl>
    <${Files} task=${t} />
    ${t.script && html`<${Block} level=${3} title="Script" what=${`Script of ${t.name || t.process}`} text=${t.script} />`}</div>`;
}
