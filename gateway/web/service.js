// The operators' page: the use of the service, its queue and its abilities.
import { useState } from "preact/hooks";
import { call, Failure } from "./api.js";
import { count, html, moment, size } from "./html.js";
import { useAgain, useLoad, Waiting } from "./load.js";
import { Bars } from "./plot.js";

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

/** @type {Record<string, string>} */
const abilities = { build: "Builds", freeze: "Freezes", sif: "Makes Singularity images", conda: "Finds and solves packages", mirror: "Mirrors", scan: "Scans" };

function Abilities() {
  const got = useLoad((signal) => call("GET", "v1alpha1/abilities", { signal }), []);
  if (!got.value) return html`<${Waiting} of=${got} what="What the service can do" />`;
  return html`<ul class="rows">${(got.value.abilities ?? []).map((/** @type {any} */ a) => html`<li key=${a.name}><div class="what"><strong>${abilities[a.name] ?? a.name}</strong>
    <p class="note">${a.problem || (a.platforms ?? []).join(", ")}</p></div><span class=${`state ${a.available ? "good" : ""}`}>${a.available ? "Yes" : "No"}</span></li>`)}</ul>
    <p class="note">Slipway ${got.value.productVersion}. More is in the metrics, for Prometheus, at <code>admin_addr</code>.</p>`;
}

/**
 * @typedef {{engine: string, architecture: string, queued?: number, running?: number, waitingSince?: string}} Backlog
 * @typedef {{name: string, slots?: number, makes?: string[], problems?: string[]}} Worker
 */

/** @type {Record<string, string>} what each engine builds */
const engines = { buildkit: "Recipes with steps", conda: "Packages without steps", freeze: "Frozen images", sif: "Singularity images" };

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
        <td class="number">${whole(b.running ?? 0)}</td><td>${b.waitingSince ? moment(b.waitingSince) : ""}</td></tr>`)}</tbody></table></div>`}
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
const stores = { images: "Images that were built", blobs: "Blobs of registries, for the next pull", layers: "Layers that came with requests" };

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
  if (!all.length) return html`<p class="empty">Each role is a process of its own, with its own disk: see the metrics for its size (<code>slipway_registry_blob_cache_bytes</code>). Images are in the registry that <code>build_repository</code> names.</p>`;
  /** @type {{folder: string, free?: number, size?: number, reserve?: number}[]} */
  const disks = got.value.disks ?? [];
  return html`${disks.map((d) => html`<p key=${d.folder} class=${(d.free ?? 0) < (d.reserve ?? 0) ? "note problem" : "note"}>${freeSpace(d)}</p>`)}
  <div class="scroll" tabindex="0" role="region" aria-label="Storage"><table>
    <thead><tr><th scope="col">On disk</th><th scope="col" class="number">Size</th><th scope="col" class="number">At most</th></tr></thead>
    <tbody>${all.map((s) => html`<tr key=${s.name}><td>${stores[s.name] ?? s.name}</td><td class="number">${size(s.size ?? 0)}</td><td class="number">${s.limit ? size(s.limit) : "No limit"}</td></tr>`)}</tbody></table></div>`;
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
    <section><h2>Queue and workers</h2><${Queue} /></section>
    <section><h2>Conda channels</h2><${Channels} /></section>
    <section><h2>Storage</h2><${Storage} /></section>
    <section><h2>By organisation, in all</h2><${Organisations} org=${org} choose=${choose} /></section>
    <section><h2>What it can do now</h2><${Abilities} /></section>`;
}
