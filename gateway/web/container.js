// The page of a request: what was requested, what is served, and until when.
import { useEffect, useState } from "preact/hooks";
import { Action } from "./action.js";
import { again, canRepeat } from "./again.js";
import { buildPage, call, catalogPage, containerPage, Failure, root, words } from "./api.js";
import { Copied } from "./copy.js";
import { html, moment, size } from "./html.js";
import { Inside } from "./inside.js";
import { keptIn } from "./keep.js";
import { remember, tokenOr } from "./names.js";
import { Expected, Failed } from "./progress.js";
import { Scanned } from "./scanned.js";
import { Source } from "./source.js";

/**
 * @typedef {{location?: string, gzipSize?: number | string}} Added
 * @typedef {{entrypoint?: string[], cmd?: string[], env?: string[], workingDir?: string, layers?: Added[]}} Config
 * @typedef {{requestId: string, targetImage?: string, containerImage?: string, containerPlatform?: string, containerConfig?: Config, containerIncludes?: string[],
 *   userId?: number, workspaceId?: number, workflowId?: string, freeze?: boolean, creationTime?: string, expiration?: string, revocationTime?: string,
 *   buildId?: string, containerFile?: string, condaFile?: string, condaOpts?: import("./again.js").CondaOpts, contextSize?: number, digests?: string[]}} Request
 * @typedef {{status?: string, succeeded?: boolean, reasonCode?: string, message?: string, position?: number, expectedStart?: number,
 *   expectedEnd?: number, scanId?: string, asked?: number}} Status asked is the time of the response, in milliseconds since the epoch
 */

/** @param {Request} r */
const isOver = (r) => !!r.revocationTime || (!r.freeze && !!r.expiration && new Date(r.expiration).getTime() < Date.now());

/** Reports whether the request's name is known and can be pulled. A request id does not give access to the name. @param {Request} r */
const isNamed = (r) => !isOver(r) && !!r.targetImage;

/** The first line of the page. @param {Request} r @param {Status | undefined} s @returns {[text: string, look: string]} */
function verdict(r, s) {
  if (r.revocationTime) return [`It was revoked on ${moment(r.revocationTime)}.`, "bad"];
  if (isOver(r)) return [`Its name worked until ${moment(r.expiration ?? "")}.`, "bad"];
  if (!s) return ["Loading its status…", "running"];
  if (s.status === "SCANNING") return ["It is being scanned. Pulling waits for it.", "running"];
  if (s.status !== "DONE") return [s.position ? `Its build waits in the queue, at place ${s.position}. Pulling waits for it.` : "It is being built. Pulling waits for it.", "running"];
  return s.succeeded ? ["Ready to pull.", "good"] : [s.reasonCode === "scan" ? "Its scan does not allow it." : "Its build failed.", "bad"];
}

/** @param {Added[]} layers */
function layersIn(layers) {
  return layers.map((l, i) => html`<li key=${i}>${l.location && !l.location.startsWith("data:") ? l.location : "files that were sent with the request"}${l.gzipSize ? `, ${size(Number(l.gzipSize))}` : ""}</li>`);
}

/** @param {{request: Request}} props */
function Asked({ request: r }) {
  const c = r.containerConfig ?? {};
  /** @param {string} title @param {string | undefined} text */
  const code = (title, text) => text && html`<dt>${title}</dt><dd><code>${text}</code></dd>`;
  return html`<section><h2>The request</h2><dl class="facts">
    ${code(r.buildId ? "Built as" : "Image", r.containerImage)}
    ${r.containerPlatform && html`<dt>Platform</dt><dd>${r.containerPlatform.split(",").join(" and ")}</dd>`}
    ${code("Program", c.entrypoint?.join(" "))}
    ${code("Arguments", c.cmd?.join(" "))}
    ${code("Folder", c.workingDir)}
    ${c.env?.length && html`<dt>Variables</dt><dd><code>${c.env.join(" ")}</code><span class="note"> Their values are not shown.</span></dd>`}
    ${c.layers?.length && html`<dt>Files</dt><dd><ul class="plain">${layersIn(c.layers)}</ul></dd>`}
    ${r.containerIncludes?.length && html`<dt>Layers of</dt><dd><ul class="plain">${r.containerIncludes.map((i) => html`<li key=${i}><code>${i}</code></li>`)}</ul></dd>`}
    ${r.creationTime && html`<dt>Requested</dt><dd>${moment(r.creationTime)}${r.userId ? `, by user ${r.userId}${r.workspaceId ? ` in the workspace ${r.workspaceId}` : ""}` : ""}</dd>`}
    ${r.workflowId && html`<dt>For the run</dt><dd>${r.workflowId}</dd>`}
    ${r.digests?.length && html`<dt>Served digest</dt><dd><${Copied} text=${r.digests[0]} what="the digest" /></dd>`}
  </dl></section>`;
}

/** @param {{at: string, request: Request, changed: () => void}} props at identifies the request in API calls: its token or its id */
function Revoke({ at, request, changed }) {
  const [sure, ask] = useState(false);
  if (isOver(request) || request.freeze || keptIn(request.targetImage)) return null;
  const act = async () => {
    await call("DELETE", `v1alpha2/container/${at}`);
    changed();
  };
  return html`<section><h2>Expiration</h2>
    <p>${request.expiration ? `The name works until ${moment(request.expiration)}.` : ""} Anyone who has the name can pull; revoke it if someone has it who should not. The address of this page does not contain the name.</p>
    ${sure
      ? html`<p role="status">The name can no longer be pulled then. A running build is cancelled unless another request uses it.</p>
        <div class="actions"><${Action} title="Revoke it" act=${act} /><button type="button" class="pill" onClick=${() => ask(false)}>Keep it</button></div>`
      : html`<p><button type="button" class="pill" onClick=${() => ask(true)}>Revoke the name</button></p>`}
  </section>`;
}

/** @param {{id: string}} props */
export function View({ id }) {
  const [request, set] = useState(/** @type {Request | undefined} */ (undefined));
  const [status, tell] = useState(/** @type {Status | undefined} */ (undefined));
  const [problem, say] = useState(/** @type {unknown} */ (undefined));
  const at = tokenOr(id);
  const read = () => call("GET", `v1alpha2/container/${at}`).then(set, say);
  useEffect(() => {
    document.title = "Container · Slipway";
    void read();
  }, [id]);
  useEffect(() => {
    if (!request || isOver(request)) return undefined;
    /** @type {number | undefined} */
    let later;
    const ask = async () => {
      const s = await call("GET", `v1alpha2/container/${at}/status`).catch(() => undefined);
      if (later === 0) return;
      if (s) tell({ ...s, asked: Date.now() });
      if (s?.status !== "DONE") later = setTimeout(ask, 3000);
    };
    void ask();
    return () => {
      clearTimeout(later);
      later = 0;
    };
  }, [request]);
  if (problem && !request) {
    const missing = problem instanceof Failure && problem.status === 404;
    return html`<h1>${missing ? "There is no such container" : "The container cannot be shown"}</h1><p class="lead">${missing ? "The address may be incomplete, or the request was deleted." : words(problem)}</p><p><a class="button" href=${root.href}>Make a container</a></p>`;
  }
  if (!request) return html`<h1 class="id">Container</h1><p role="status">Looking it up…</p>`;
  const [text, state] = verdict(request, status);
  const open = at !== request.requestId || request.userId !== undefined; // otherwise the request belongs to another user
  const fresh = async () => {
    const given = await call("POST", `v1alpha2/container/${at}/name`);
    remember(given);
    location.assign(containerPage(given.requestId));
  };
  return html`
    <h1 class="id">Container</h1>
    <p class=${`verdict ${state}`} role="status">${text}</p>
    ${status?.asked && status.expectedEnd !== undefined && html`<${Expected} expected=${{ start: status.asked + 1000 * (status.expectedStart ?? 0), end: status.asked + 1000 * status.expectedEnd }} />`}
    ${status?.succeeded === false && html`<${Failed} reason=${status.reasonCode} message=${status.message} />`}
    ${!open && html`<p class="note">The address of this page gives no access to the image. Its name and its configuration are shown only in the tab that requested it, and to the signed-in user who requested it.</p>`}
    ${isNamed(request) && html`<${Copied} large text=${request.targetImage} what="the name" />`}
    <div class="actions">${open && !isNamed(request) && !request.revocationTime && status?.succeeded !== false && html`<${Action} title="Get a fresh name" act=${fresh} />`}
      ${canRepeat(request) && html`<button type="button" class="pill" onClick=${() => again({ ...request, platform: request.containerPlatform })}>Build again</button>`}
      ${request.buildId && html`<a href=${buildPage(request.buildId)}>The build and its log</a>`}
      ${keptIn(request.targetImage) && html`<a href=${catalogPage(keptIn(request.targetImage))}>Its page in the catalogue</a>`}</div>
    <${Asked} request=${request} />
    ${status?.succeeded && request.targetImage && !isOver(request) && !request.targetImage.startsWith("oras://")
      && html`<${Inside} name=${async () => request.targetImage ?? ""} platform=${request.containerPlatform} />`}
    ${status?.scanId && html`<${Scanned} at=${`v1alpha1/scans/${status.scanId}`} name=${isNamed(request) && !request.freeze ? request.targetImage : ""} />`}
    ${open && html`<${Revoke} at=${at} request=${request} changed=${read} />`}
    <${Source} title="Dockerfile" text=${request.containerFile} />
    <${Source} title="Conda environment" text=${request.condaFile} />`;
}
