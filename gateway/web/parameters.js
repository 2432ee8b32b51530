// The parameters, the command and the configuration of a run.
import { useState } from "preact/hooks";
import { Block } from "./block.js";
import { Copy } from "./copy.js";
import { count, html } from "./html.js";

/** @typedef {import("./runs.js").Run} Run */

/** The number of parameters that are shown; all are copied. */
const most = 1000;

/** @param {unknown} value */
const isSet = (value) => value !== null && value !== undefined && value !== "";

/** @param {{value: unknown}} props */
function Value({ value }) {
  if (!isSet(value)) return html`<span class="soft">not set</span>`;
  if (typeof value !== "object") return html`<code>${String(value)}</code>`;
  const entries = Object.keys(/** @type {object} */ (value)).length;
  return html`<details><summary>${count(entries, Array.isArray(value) ? "value" : "parameter")}</summary><pre class="source wrapped" tabindex="0" aria-label="Values">${JSON.stringify(value, undefined, 2)}</pre></details>`;
}

/** @param {{params: Record<string, unknown>}} props */
function Parameters({ params }) {
  const [whole, open] = useState(false);
  const all = Object.entries(params);
  const set = all.filter(([, value]) => isSet(value));
  const shown = (whole ? all : set).slice(0, most);
  return html`<section aria-labelledby="parameters-title"><div class="head"><h2 id="parameters-title">Parameters</h2><span class="links">
      <${Copy} text=${`${JSON.stringify(params, undefined, 2)}\n`} what="the parameters as JSON, for -params-file" /></span></div>
    <dl class="facts parameters">${shown.map(([name, value]) => html`<dt key=${name}><code>${name}</code></dt><dd><${Value} value=${value} /></dd>`)}</dl>
    ${all.length > most && html`<p class="note">${count(most, "parameter")} at most are shown; the copy has all ${all.length.toLocaleString()}.</p>`}
    ${set.length < all.length && html`<p><button type="button" class="small" aria-pressed=${whole} onClick=${() => open(!whole)}>${whole ? "Hide" : "Show"} ${all.length - set.length} that are not set</button></p>`}</section>`;
}

/** @param {{run: Run}} props */
export function Launch({ run }) {
  const folders = [run.launchDir && `Launched in ${run.launchDir}`, run.workDir && `works in ${run.workDir}`, run.profile && `profile ${run.profile}`, run.commitId && `commit ${run.commitId}`];
  return html`${run.params && Object.keys(run.params).length > 0 && html`<${Parameters} params=${run.params} />`}
    ${run.commandLine && html`<section><${Block} title="Command" text=${run.commandLine} /><p class="note">${folders.filter(Boolean).join(" · ")}</p></section>`}
    ${run.configText && html`<section><details><summary>Configuration, as Nextflow resolved it</summary><${Block} title="Configuration" text=${run.configText} /></details></section>`}`;
}
