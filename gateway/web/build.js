// The page of a build or a mirror: its state, why it failed if it did, its log and its contents.
import { useEffect, useState } from "preact/hooks";
import { Action } from "./action.js";
import { again, canRepeat } from "./again.js";
import { call, Failure, root, words } from "./api.js";
import { Copied } from "./copy.js";
import { duration, html, moment } from "./html.js";
import { Inside } from "./inside.js";
import { Packages } from "./lock.js";
import { Log } from "./log.js";
import { scanOf } from "./names.js";
import { Expected, Failed, Steps } from "./progress.js";
import { Scanned } from "./scanned.js";
import { session } from "./session.js";
import { Source } from "./source.js";
import { Told } from "./told.js";
import { Uses } from "./uses.js";
import { Watch } from "./watch.js";

/**
 * @typedef {{buildId: string, status: string, succeeded?: boolean, reasonCode?: string, message?: string, targetImage?: string, platform?: string,
 *   containerFile?: string, condaFile?: string, condaOpts?: import("./again.js").CondaOpts, contextSize?: number, digest?: string, userId?: number, startTime?: string, duration?: number, served?: boolean, sourceImage?: string, provenance?: string, provenanceMessage?: string, environment?: string}} Record
 */

/** The time since a given time, in words. @param {{since: string}} props */
function Passing({ since }) {
  const [now, tick] = useState(Date.now());
  useEffect(() => {
    const every = setInterval(() => tick(Date.now()), 1000);
    return () => clearInterval(every);
  }, []);
  return html`${duration(Math.max(0, (now - new Date(since).getTime()) / 1000))} so far`;
}

/** @param {{record: Record}} props */
function Facts({ record }) {
  const { startTime } = record;
  return html`<dl class="facts">
    ${record.sourceImage && html`<dt>Copy of</dt><dd><code>${record.sourceImage}</code></dd>`}
    ${record.platform && html`<dt>Platform</dt><dd>${record.platform.split(",").join(" and ")}</dd>`}
    ${startTime && html`<dt>Requested</dt><dd>${moment(startTime)}, ${record.userId ? `by user ${record.userId}` : "by an anonymous user"}</dd>`}
    ${record.duration !== undefined ? html`<dt>Took</dt><dd>${duration(record.duration)}</dd>` : startTime && html`<dt>Takes</dt><dd><${Passing} since=${startTime} /></dd>`}
    ${record.digest && html`<dt>Digest</dt><dd><${Copied} text=${record.digest} what="the digest" /></dd>`}
    ${record.provenance && html`<dt>Provenance</dt><dd>${record.provenanceMessage || "Attached to the copy"}${record.provenance === "PENDING" && " (retrying)"}</dd>`}
  </dl>`;
}

/** The actions that are possible on the build. @param {{record: Record, running: boolean, name: string, ask: () => Promise<any>}} props */
function Actions({ record, running, name, ask }) {
  const made = record.succeeded;
  return html`<div class="actions">
    ${made && !name && html`<${Action} title="Get a name to pull it by" act=${ask} />`}
    ${session.value && running && html`<${Action} plain title=${`Cancel this ${record.sourceImage ? "mirror" : "build"}`} act=${() => call("DELETE", `v1alpha1/builds/${record.buildId}`)} />`}
    ${!running && canRepeat(record) && html`<button type="button" class=${made ? "pill" : "button"} onClick=${() => again(record)}>Build again</button>`}
  </div>`;
}

/** The build's state and results. @param {{record: Record, watch: Watch}} props */
function Known({ record, watch }) {
  const [given, give] = useState("");
  const { succeeded, targetImage = "" } = record;
  const name = given || (succeeded && !record.served ? targetImage : "");
  const ask = async () => {
    const one = name || (await call("POST", `v1alpha2/container/${record.buildId}/name`)).targetImage;
    give(one);
    return one;
  };
  const end = watch.end.value ?? (record.status === "COMPLETED" ? { ...record, succeeded: !!succeeded } : undefined);
  const place = watch.place.value;
  const requested = scanOf(record.buildId);
  const scan = requested ? `v1alpha1/scans/${requested}` : session.value && `v1alpha1/builds/${record.buildId}/scan`; // other users' scans are not shown
  const cancelled = end?.reasonCode === "cancelled";
  const [done, running] = record.sourceImage ? ["Copied.", "Being copied."] : ["Built.", "Being built."];
  const verdict = end ? (end.succeeded ? done : cancelled ? "Cancelled." : "Failed.") : place ? `In the queue, at place ${place}.` : running;
  return html`
    <p class=${`verdict ${!end ? "running" : end.succeeded ? "good" : "bad"}`} role="status">${verdict}</p>
    ${end && !end.succeeded && !cancelled && html`<${Failed} reason=${end.reasonCode} message=${end.message} />`}
    ${name && html`<${Copied} large text=${name} what="the name" />`}
    ${name && record.environment && record.environment === record.digest && html`<${Uses} name=${name} format="environment" />`}
    <${Actions} record=${record} running=${!end} name=${name} ask=${ask} />
    <${Steps} seen=${watch.seen.value} end=${end} place=${place} />
    ${!end && html`<${Expected} expected=${watch.expected.value} />`}
    <${Facts} record=${record} />
    ${succeeded && !targetImage.startsWith("oras://") && html`<${Inside} name=${ask} platform=${record.platform} />`}
    ${succeeded && scan && html`<${Scanned} at=${scan} name=${record.served ? name : ""} />`}`;
}

/** The record of a build; a mirror also has its source. @param {string} id @param {boolean} mirror @returns {Promise<Record>} */
async function read(id, mirror) {
  const [build, copy] = await Promise.all([call("GET", `v1alpha1/builds/${id}`), mirror && call("GET", `v1alpha1/mirrors/${id}`)]);
  return { ...build, sourceImage: copy?.sourceImage, provenance: copy?.provenance, provenanceMessage: copy?.provenanceMessage };
}

/** @param {{id: string, mirror: boolean}} props */
export function View({ id, mirror }) {
  const kind = mirror ? "Mirror" : "Build";
  const [record, set] = useState(/** @type {Record | undefined} */ (undefined));
  const [problem, say] = useState(/** @type {unknown} */ (undefined));
  const [watch, observe] = useState(/** @type {Watch | undefined} */ (undefined));
  useEffect(() => {
    document.title = `${kind} ${id} · Slipway`;
    const w = new Watch(id);
    observe(w);
    let timer = 0;
    /** @param {number[]} pauses in ms, before further calls while the provenance of a copy is not there */
    const ask = async (...pauses) => {
      try {
        const one = await read(id, mirror);
        if (timer < 0) return;
        set(one);
        const [pause, ...others] = pauses;
        if (pause && !["ATTACHED", "FAILED"].includes(one.provenance ?? "")) timer = setTimeout(ask, pause, ...others);
      } catch (err) {
        say(err);
        w.close();
      }
    };
    void ask();
    const ended = w.end.subscribe((end) => end && ask(...(mirror && end.succeeded ? [2e3, 4e3, 8e3, 16e3] : [])));
    return () => {
      clearTimeout(timer);
      timer = -1;
      ended();
      w.close();
    };
  }, [id, mirror]);
  if (problem && !record) {
    const missing = problem instanceof Failure && problem.status === 404;
    return html`<h1>${missing ? `There is no such ${kind.toLowerCase()}` : `The ${kind.toLowerCase()} cannot be shown`}</h1><p class="lead"><${Told} text=${words(problem)} /></p><p><a class="button" href=${root.href}>Make a container</a></p>`;
  }
  if (!record || !watch) return html`<h1 class="id">${kind} <code>${id}</code></h1><p role="status">Looking it up…</p>`;
  return html`
    <h1 class="id">${kind} <code>${id}</code></h1>
    <${Known} record=${record} watch=${watch} />
    <${Log} watch=${watch} id=${id} />
    ${!mirror && html`<${Packages} id=${id} />`}
    <${Source} title="Dockerfile" text=${record.containerFile} />
    <${Source} title="Conda environment" text=${record.condaFile} />`;
}
