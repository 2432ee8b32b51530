// The operators' page: the use of the service, its queue and its abilities.
import { useState } from "preact/hooks";
import { call, Failure } from "./api.js";
import { count, html, moment, size } from "./html.js";
import { useAgain, useLoad, Waiting } from "./load.js";
import { Bars } from "./plot.js";
import { Abilities } from "./status.js";
import { Usage } from "./usage.js";

/** The number of days shown. */
const span = 14;

/** The last days in UTC, oldest first, as ISO dates. */
function days() {
  return Array.from({ length: span }, (_, i) => new Date(Date.now() - (span - 1 - i) * 86400000).toISOString().slice(0, 10));
}

/** @type {[kind: string, title: string, note: string][]} */
const metrics = [["pulls", "Pulls", "of images, each day (UTC)"], ["builds", "Builds", "that were admitted, each day (UTC)"]];

/** @param {string} kind @param {string} org @param {AbortSignal} signal */
function counts(kind, org, signal) {
  const more = org ? `&org=${encodeURIComponent(org)}` : "";
  return Promise.all(days().map(async (date) => ({ name: date, value: Number((await call("GET", `v1alpha2/metrics/${kind}?date=${date}${more}`, { signal })).count ?? 0) })));
}

const whole = (/** @type {number} */ n) => n.toLocaleString();

/** @param {{kind: string, title: string, note: string, org: string}} props */
function Daily({ kind, title, note, org }) {
  const got = useLoad((signal) => counts(kind, org, signal), [org]);
  return got.value && !got.problem ? html`<${Bars} title=${title} note=${`${note}${org && `, ${org}`}`} bars=${got.value} say=${whole} what="Day" />` : html`<${Waiting} of=${got} what=${title} />`;
}

/** @param {{org: string, choose: (org: string) => void}} props */
function Organisations({ org, choose }) {
  const got = useLoad(async (signal) => {
    const [pulls, builds] = await Promise.all(metrics.map(([kind]) => call("GET", `v1alpha2/metrics/${kind}`, { signal })));
    const names = [...new Set([...Object.keys(pulls.orgs ?? {}), ...Object.keys(builds.orgs ?? {})])];
    return names.map((name) => ({ name, pulls: pulls.orgs?.[name] ?? 0, builds: builds.orgs?.[name] ?? 0 })).sort((a, b) => b.pulls - a.pulls || b.builds - a.builds);
  }, []);
  if (!got.value) return html`<${Waiting} of=${got} what="The organisations" />`;
  if (!got.value.length) return html`<p class="empty">No pulls or builds of organisations were counted yet. The e-mail addresses of signed-in users determine their organisations.</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Organisations"><table>
    <thead><tr><th scope="col">Organisation</th><th scope="col" class="number">Pulls</th><th scope="col" class="number">Builds</th></tr></thead>
    <tbody>${got.value.slice(0, 200).map((o) => html`<tr key=${o.name}><td><button type="button" class="link" aria-pressed=${o.name === org} onClick=${() => choose(o.name === org ? "" : o.name)}>${o.name}</button></td>
      <td class="number">${whole(o.pulls)}</td><td class="number">${whole(o.builds)}</td></tr>`)}</tbody></table></div>`;
}

/**
 * @typedef {{engine: string, architecture: string, queued?: number, running?: number, waitingSince?: string}} Backlog
 * @typedef {{name: string, slots?: number, makes?: string[], problems?: string[]}} Worker
 */

/** @type {Record<string, string>} what each engine builds */
const engines = { buildkit: "Recipes with steps", conda: "Packages without steps", freeze: "Frozen images", mirror: "Mirrors", sif: "Singularity images" };

/** How long a build waits in milliseconds before workers that are free should have taken it. */
const stuckAfter = 600000;

/** Whether builds wait although no other is running and a worker could build them. @param {Backlog} b @param {Worker[]} workers */
function isStuck(b, workers) {
  return (b.queued ?? 0) > 0 && !b.running && b.waitingSince && Date.now() - Date.parse(b.waitingSince) > stuckAfter && workers.some((w) => w.makes?.includes(`${b.engine}/${b.architecture}`));
}

/** The queue and the workers. */
function Queue() {
  const got = useLoad((signal) => call("GET", "v1alpha1/queue", { signal }), []);
  useAgain(got.again, 5000);
  if (!got.value) return html`<${Waiting} of=${got} what="The queue" />`;
  /** @type {{backlog: Backlog[], workers: Worker[]}} */
  const { backlog = [], workers = [] } = got.value;
  return html`${backlog.length > 0 && html`<div class="scroll" tabindex="0" role="region" aria-label="Queue"><table>
      <thead><tr><th scope="col">Builds</th><th scope="col">For</th><th scope="col" class="number">Waiting</th><th scope="col" class="number">Running</th><th scope="col">Oldest since</th></tr></thead>
      <tbody>${backlog.map((b) => html`<tr key=${b.engine + b.architecture}><td>${engines[b.engine] ?? b.engine}</td><td>${b.architecture}</td><td class="number">${whole(b.queued ?? 0)}</td>
        <td class="number">${whole(b.running ?? 0)}</td><td>${b.waitingSince ? moment(b.waitingSince) : ""}${isStuck(b, workers) && html`<p class="note problem">A worker is free, but gets no builds: see the logs of the role build and of the worker.</p>`}</td></tr>`)}</tbody></table></div>`}
    ${workers.length ? html`<ul class="rows workers">${workers.map((w) => html`<li key=${w.name}><div class="what"><strong>${w.name}</strong><p class="note">${(w.makes ?? []).join(", ") || "no engine available"}</p>
      ${(w.problems ?? []).map((p) => html`<p class="note problem" key=${p}>${p}</p>`)}</div><span class="note">${count(w.slots ?? 0, "build")} at a time</span></li>`)}</ul>`
      : html`<p class="empty">No worker is running, so no image can be built.</p>`}`;
}

/** @typedef {{channel?: string, subdir?: string, checkedTime?: string, size?: number, problem?: string}} Channel */

/** The state of the channels' package lists. */
function Channels() {
  const got = useLoad((signal) => call("GET", "v1alpha1/conda/channels", { signal }), []);
  useAgain(got.again, 30000);
  if (!got.value) return html`<${Waiting} of=${got} what="The channels" />`;
  /** @type {{channels: Channel[], others?: Channel}} */
  const { channels = [], others } = got.value;
  if (!channels.length && !others) return html`<p class="empty">No channel was used since the service started. A channel's package list is fetched at its first use.</p>`;
  const all = others ? [...channels, others] : channels;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Conda channels"><table>
    <thead><tr><th scope="col">Channel</th><th scope="col">Packages for</th><th scope="col">Last checked</th><th scope="col" class="number">On disk</th></tr></thead>
    <tbody>${all.map((c) => html`<tr key=${`${c.channel}/${c.subdir}`}><td>${c.channel ?? "All others"}</td><td>${c.subdir ?? ""}</td>
      <td>${c.checkedTime ? moment(c.checkedTime) : "Never"}${c.problem && html`<p class="note problem">${c.problem}</p>`}</td><td class="number">${size(c.size ?? 0)}</td></tr>`)}</tbody>
    <tfoot><tr><th scope="row" colspan="3">Together</th><td class="number">${size(all.reduce((sum, c) => sum + (c.size ?? 0), 0))}</td></tr></tfoot></table></div>`;
}

/** @type {Record<string, string>} the labels of the stores */
const stores = {
  images: "Images that were built", blobs: "Blobs of registries, for the next pull", layers: "Layers that came with requests", database: "Database", nats: "Streams of NATS",
};

/** Those that are servers, which all processes share. */
const servers = ["database", "nats"];

/** The free space of a disk. @param {{folder: string, free?: number, size?: number, reserve?: number}} d */
function freeSpace(d) {
  const free = `The disk of ${d.folder} has ${size(d.free ?? 0)} of ${size(d.size ?? 0)} free`;
  return (d.free ?? 0) < (d.reserve ?? 0) ? `${free}, less than disk_reserve (${size(d.reserve ?? 0)}): no images are built until there is space.` : `${free}.`;
}

/** The free disk space, and what the stores use. */
function Storage() {
  const got = useLoad((signal) => call("GET", "v1alpha2/metrics/storage", { signal }), []);
  if (!got.value) return html`<${Waiting} of=${got} what="Storage" />`;
  /** @type {{name: string, size?: number, limit?: number}[]} */
  const all = got.value.stores ?? [];
  /** @type {{folder: string, free?: number, size?: number, reserve?: number}[]} */
  const disks = got.value.disks ?? [];
  return html`${all.every((s) => servers.includes(s.name)) && html`<p class="empty">Each role is a process of its own, with its own disk: see the metrics for its size (<code>slipway_registry_blob_cache_bytes</code>). Images are in the registry that <code>build_repository</code> names.</p>`}
  ${disks.map((d) => html`<p key=${d.folder} class=${(d.free ?? 0) < (d.reserve ?? 0) ? "note problem" : "note"}>${freeSpace(d)}</p>`)}
  <div class="scroll" tabindex="0" role="region" aria-label="Storage"><table>
    <thead><tr><th scope="col">Stored</th><th scope="col" class="number">Size</th><th scope="col" class="number">At most</th></tr></thead>
    <tbody>${all.map((s) => html`<tr key=${s.name}><td>${stores[s.name] ?? s.name}</td><td class="number">${s.size === undefined ? "Does not respond" : size(s.size)}</td><td class="number">${s.limit ? size(s.limit) : s.name === "database" ? "" : "No limit"}</td></tr>`)}</tbody></table></div>`;
}

/** @typedef {{name: string, works?: boolean, required?: boolean, problem?: string}} Dependency */

/** How far the clocks of the server and of the browser may differ, in milliseconds. */
const allowedSkew = 30000;

/**
 * A message if the clock of the server differs from that of the browser, or "".
 * @param {{time?: string, sent: number, received: number}} response sent and received are the times of the browser
 */
function clockProblem({ time = "", sent, received }) {
  const server = Date.parse(time);
  const skew = server < sent ? server - sent : server > received ? server - received : 0;
  if (!(Math.abs(skew) > allowedSkew)) return "";
  return `The clock of the server is ${count(Math.round(Math.abs(skew) / 1000), "second")} ${skew < 0 ? "behind" : "ahead of"} that of this browser. Correct the one that is wrong: tokens and certificates may be rejected because of it.`;
}

/** What the service depends on, its certificates and its clock. */
function Health() {
  const got = useLoad(async (signal) => {
    const sent = Date.now();
    return { ...await call("GET", "v1alpha2/metrics/health", { signal }), sent, received: Date.now() };
  }, []);
  useAgain(got.again, 30000);
  if (!got.value) return html`<${Waiting} of=${got} what="The state" />`;
  /** @type {{dependencies: Dependency[], certificates: {setting: string, expiryTime: string}[]}} */
  const { dependencies = [], certificates = [] } = /** @type {any} */ (got.value);
  const clock = clockProblem(/** @type {any} */ (got.value));
  return html`${got.problem && html`<${Waiting} of=${got} what="The current state" />`}
    <p class="note">${got.problem ? `This was the state at ${moment(/** @type {any} */ (got.value).time)}.` : "What the process of the metrics reports. If each role is a process of its own, the alerts report the state of the others."}</p>
    <ul class="rows health">${dependencies.map((d) => html`<li key=${d.name}><div class="what"><strong>${d.name}</strong>
      ${!d.required && html` <span class="tag">optional</span>`}${d.problem && html`<p class="note problem">${d.problem}</p>`}</div><span class=${`state ${d.works ? "good" : ""}`}>${d.works ? "Works" : "Does not work"}</span></li>`)}</ul>
    ${certificates.map((c) => html`<p class="note" key=${c.setting}>The certificate of <code>${c.setting}</code> expires on ${moment(c.expiryTime)}.</p>`)}
    ${clock && html`<p class="note problem clock">${clock}</p>`}`;
}

/** Reports whether the user may see the operators' figures. @param {AbortSignal} signal */
async function mayLook(signal) {
  try {
    await call("GET", "v1alpha2/metrics/builds", { signal });
    return true;
  } catch (err) {
    if (err instanceof Failure && err.status === 403) return false;
    throw err;
  }
}

export function View() {
  const [org, choose] = useState("");
  const may = useLoad(mayLook, []);
  if (may.value === undefined) return html`<h1>The service</h1><${Waiting} of=${may} what="The service" />`;
  if (!may.value) {
    return html`<h1>The service</h1>
      <p class="empty">Usage, queue, workers and disks are visible to the platform’s administrator only: sign in with the token of the server’s <code>admin_token_file</code>.</p>
      <section><h2>What it can do now</h2><${Abilities} /></section>`;
  }
  return html`<h1>The service</h1>
    ${metrics.map(([kind, title, note]) => html`<${Daily} key=${kind} kind=${kind} title=${title} note=${note} org=${org} />`)}
    <section><h2>State</h2><${Health} /></section>
    <section><h2>Queue and workers</h2><${Queue} /></section>
    <section><h2>Conda channels</h2><${Channels} /></section>
    <section><h2>Storage</h2><${Storage} /></section>
    <${Usage} by=${["user", "organization", "workspace", "day"]} />
    <section><h2>By e-mail domain, in all</h2><${Organisations} org=${org} choose=${choose} /></section>
    <section><h2>What it can do now</h2><${Abilities} />
      <p class="note">More is in the metrics, for Prometheus, at <code>admin_addr</code>.</p></section>`;
}
