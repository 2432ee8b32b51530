// One build: why it failed if it did, how far it is, its log, and what it is made of.
import { useEffect, useRef, useState } from "preact/hooks";
import { call, Failure, root, words } from "./api.js";
import { Copied } from "./copy.js";
import { count, duration, html, moment, size } from "./html.js";
import { Failed, Steps } from "./progress.js";
import { most, Watch } from "./watch.js";

/**
 * @typedef {{buildId: string, status: string, succeeded?: boolean, reason?: string, message?: string, targetImage?: string, platform?: string,
 *   containerFile?: string, condaFile?: string, digest?: string, startTime?: string, duration?: number, served?: boolean}} Record
 */

/** @param {{watch: Watch, id: string}} props */
function Log({ watch, id }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const lines = watch.lines.value;
  const stays = useRef(true); // at the end, until the reader scrolls up
  useEffect(() => {
    if (stays.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines]);
  return html`<section aria-labelledby="log-title">
    <div class="head"><h2 id="log-title">Log</h2><a href=${new URL(`v1alpha1/builds/${id}/logs`, root).href}>As a text</a></div>
    ${lines.length >= most && html`<p class="note">These are the last ${most.toLocaleString()} lines.</p>`}
    <div class="log" ref=${box} tabindex="0" role="log" aria-label="Log of the build" aria-live="off"
      onScroll=${(/** @type {any} */ e) => {
        const at = e.currentTarget;
        stays.current = at.scrollHeight - at.scrollTop - at.clientHeight < 40;
      }}>${lines.length ? lines.map((l) => html`<div key=${l.n}>${l.text}</div>`) : watch.end.value ? "It has no lines." : "No lines yet."}</div>
    ${watch.problem.value && html`<p class="note problem" role="status">${watch.problem.value}</p>`}
  </section>`;
}

/** The name to pull it by. @param {{record: Record}} props */
function Name({ record }) {
  const [name, give] = useState("");
  const [problem, say] = useState("");
  if (!record.succeeded) return null;
  if (!record.served) return record.targetImage ? html`<${Copied} large text=${record.targetImage} what="the name" />` : null;
  if (name) return html`<${Copied} large text=${name} what="the name" />`;
  return html`<p><button type="button" class="button" onClick=${async () => {
    say("");
    try {
      give((await call("POST", `v1alpha2/container/${record.buildId}/name`)).targetImage);
    } catch (err) {
      say(words(err));
    }
  }}>Get a name to pull it by</button></p>${problem && html`<p class="note problem" role="alert">${problem}</p>`}`;
}

/** @param {{record: Record}} props */
function Facts({ record }) {
  return html`<dl class="facts">
    ${record.platform && html`<dt>Platform</dt><dd>${record.platform}</dd>`}
    ${record.startTime && html`<dt>Asked for</dt><dd>${moment(record.startTime)}</dd>`}
    ${record.duration !== undefined && html`<dt>Took</dt><dd>${duration(record.duration)}</dd>`}
    ${record.digest && html`<dt>Digest</dt><dd><${Copied} text=${record.digest} what="the digest" /></dd>`}
  </dl>`;
}

/** @param {{id: string}} props */
function Packages({ id }) {
  const [locks, set] = useState(/** @type {any[]} */ ([]));
  useEffect(() => {
    call("GET", `v1alpha1/builds/${id}/lock`).then((l) => set(l.locks ?? []), () => set([])); // many builds have none
  }, [id]);
  return locks.map((l) => html`<section key=${l.platform}><h2>Packages</h2>
    <p class="note">${count(l.packages?.length ?? 0, "package")}, ${size(l.size ?? 0)}, for ${l.platform}</p>
    <div class="scroll" tabindex="0" role="region" aria-label=${`Packages for ${l.platform}`}><table>
      <thead><tr><th scope="col">Package</th><th scope="col">Version</th><th scope="col">Licence</th><th scope="col" class="number">Size</th></tr></thead>
      <tbody>${(l.packages ?? []).map((/** @type {any} */ p) => html`<tr key=${p.name}><td>${p.name}</td><td>${p.version}</td><td>${p.license ?? ""}</td>
        <td class="number">${p.size ? size(p.size) : ""}</td></tr>`)}</tbody></table></div></section>`);
}

/** @param {{title: string, text?: string}} props */
function Source({ title, text }) {
  if (!text) return null;
  return html`<section><h2>${title}</h2><pre class="source" tabindex="0" aria-label=${title}>${text}</pre></section>`;
}

/** @param {{id: string}} props */
export function Build({ id }) {
  const [record, set] = useState(/** @type {Record | undefined} */ (undefined));
  const [problem, say] = useState(/** @type {unknown} */ (undefined));
  const [watch, observe] = useState(/** @type {Watch | undefined} */ (undefined));
  useEffect(() => {
    document.title = `Build ${id} · Slipway`;
    const w = new Watch(id);
    observe(w);
    const ask = () => call("GET", `v1alpha1/builds/${id}`).then(set, (err) => {
      say(err);
      w.close();
    });
    void ask();
    const ended = w.end.subscribe((end) => end && ask());
    return () => {
      ended();
      w.close();
    };
  }, [id]);
  if (problem) {
    const missing = problem instanceof Failure && problem.status === 404;
    return html`<h1>${missing ? "There is no such build" : "The build cannot be shown"}</h1><p class="lead">${words(problem)}</p><p><a class="button" href=${root.href}>Make a container</a></p>`;
  }
  if (!record || !watch) return html`<h1 class="id">Build <code>${id}</code></h1><p role="status">Looking it up…</p>`;
  const end = watch.end.value ?? (record.status === "COMPLETED" ? { ...record, succeeded: !!record.succeeded } : undefined);
  return html`
    <h1 class="id">Build <code>${id}</code></h1>
    <p class=${`verdict ${!end ? "running" : end.succeeded ? "good" : "bad"}`} role="status">${!end ? "It is being made." : end.succeeded ? "It was made." : "It failed."}</p>
    ${end && !end.succeeded && html`<${Failed} reason=${end.reason} message=${end.message} />`}
    <${Name} record=${record} />
    <${Steps} seen=${watch.seen.value} end=${end} />
    <${Facts} record=${record} />
    <${Log} watch=${watch} id=${id} />
    <${Packages} id=${id} />
    <${Source} title="Dockerfile" text=${record.containerFile} />
    <${Source} title="Conda environment" text=${record.condaFile} />`;
}
