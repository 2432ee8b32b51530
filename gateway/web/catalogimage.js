// The page of a kept image: how to pull it, what is in it, and how to cite it.
import { useEffect, useState } from "preact/hooks";
import { Action } from "./action.js";
import { again } from "./again.js";
import { buildPage, call, catalogPage, Failure, root, words } from "./api.js";
import { Copied, Copy } from "./copy.js";
import { count, html, moment, size } from "./html.js";
import { useAgain, useLoad, Waiting } from "./load.js";
import { Downloads } from "./lock.js";
import { usualChannels } from "./order.js";
import { Bars } from "./plot.js";
import { Told } from "./told.js";
import { uses, Uses } from "./uses.js";

/** @typedef {import("./catalog.js").Image} Image */

/** The pause before an image that is being built is read again, in ms. */
const building = 5000;

/** Opens the first view with the packages of an image. @param {Image} i */
async function vary({ id, targetImage, containerPlatform: platform = "", format, specs = [], channels = [] }) {
  if (!specs.length) return again({ condaFile: await call("GET", `v1alpha1/catalog/${id}/lock?format=conda-lock`, { text: true }), platform, targetImage, format });
  const q = new URLSearchParams(specs.map((s) => ["p", s]));
  if (channels.join() !== usualChannels.join()) channels.forEach((c) => q.append("channel", c));
  q.set("platform", platform);
  if (format) q.set("format", format);
  return location.assign(new URL(`?${q}`, root));
}

/** The name of the image, and ways to use it. @param {{image: Image, failed: boolean}} props */
function Name({ image: i, failed }) {
  if (i.deletionTime) {
    return html`<section class="failed" aria-labelledby="deleted"><h2 id="deleted">The name was deleted</h2>
      <p class="why">${`The operator of this server deleted it on ${moment(i.deletionTime)}.${i.deletionReason ? ` The reason: ${i.deletionReason}` : ""}`}</p>
      <p>It can no longer be pulled. What was in the image is listed here, and its lock remains.</p></section>
      <p class="copied"><code tabindex="0" aria-label="The name that it had">${i.targetImage}</code></p>`;
  }
  const shown = uses(i.targetImage, undefined, i.format).filter(([title]) => ["Docker", "Podman", "Apptainer", "slipway run"].includes(title));
  return html`${!i.digest && (failed ? html`<p class="verdict bad" role="status">Its build failed. A later pull builds it again.</p>`
    : html`<p class="verdict running" role="status">It is being built. A pull waits for its build.</p>`)}
    <${Copied} large text=${i.targetImage} what="the name" />
    <${Uses} name=${i.targetImage} format=${i.format} />
    <dl class="facts paper">${shown.map(([title, command]) => html`<dt>${title}</dt><dd><code>${command}</code></dd>`)}<dt>Address</dt><dd>${catalogPage(i.id)}</dd></dl>`;
}

/** @param {{list?: string[]}} props */
const Codes = ({ list = [] }) => html`<ul class="packs">${list.map((text) => html`<li key=${text}><code>${text}</code></li>`)}</ul>`;

/** @param {{image: Image}} props */
function Facts({ image: i }) {
  const both = i.containerPlatform?.split(",") ?? [];
  return html`<dl class="facts">
    ${!!i.specs?.length && html`<dt>Requested</dt><dd><${Codes} list=${i.specs} /></dd>`}
    ${!!i.channels?.length && html`<dt>Channels</dt><dd><${Codes} list=${i.channels} /></dd>`}
    ${both.length > 0 && html`<dt>Platforms</dt><dd>${both.join(" and ")}</dd>`}
    ${i.size !== undefined && html`<dt>Size</dt><dd>${size(i.size)} compressed${both.length > 1 ? ", of all platforms" : ""}</dd>`}
    ${i.digest && html`<dt>Digest</dt><dd><${Copied} text=${i.digest} what="the digest" /></dd>`}
    ${!!i.earlierDigests?.length && html`<dt>Earlier digests</dt><dd><${Codes} list=${i.earlierDigests} /><p class="note">Of the same packages, before the image was made again. They can no longer be pulled.</p></dd>`}
    ${i.baseImage && html`<dt>Base image</dt><dd><code>${i.baseImage}</code></dd>`}
    ${i.creationTime && html`<dt>Kept</dt><dd>${moment(i.creationTime)}</dd>`}
  </dl>`;
}

/** @param {{packages: import("./catalog.js").Package[], folded?: boolean}} props */
function Rows({ packages, folded = false }) {
  return html`<tbody class=${folded ? "folded" : ""}>${packages.map((p) => html`<tr key=${`${p.name} ${p.version}`}><td>${p.name}</td><td>${p.version}</td><td>${p.kind === "pypi" ? "PyPI" : p.kind}</td>
    <td>${p.license}</td></tr>`)}</tbody>`;
}

/** The packages: the requested ones, and the others on demand. @param {{image: Image}} props */
function Packages({ image }) {
  const [open, unfold] = useState(false);
  const all = image.packages ?? [];
  const asked = all.filter((p) => p.requested), others = all.filter((p) => !p.requested);
  const folds = asked.length > 0 && others.length > 0;
  return html`<section><h2>Packages</h2><p class="note">${count(all.length, "package")}${asked.length ? `, of which ${asked.length.toLocaleString()} ${asked.length === 1 ? "was" : "were"} requested` : ", from a lock"}</p>
    <div class="scroll" tabindex="0" role="region" aria-label="Packages"><table>
      <thead><tr><th scope="col">Package</th><th scope="col">Version</th><th scope="col">Kind</th><th scope="col">Licence</th></tr></thead>
      ${asked.length > 0 && html`<${Rows} packages=${asked} />`}${others.length > 0 && html`<${Rows} packages=${others} folded=${folds && !open} />`}</table></div>
    ${folds && html`<p><button type="button" class="small" aria-expanded=${open} onClick=${() => unfold(!open)}>${open ? "Show requested packages only" : `Show all ${count(all.length, "package")}`}</button></p>`}
    <${Licenses} packages=${all} />
    <${Downloads} at=${`v1alpha1/catalog/${image.id}/lock`} name=${`${image.name}-${image.tag}`} several=${!!image.containerPlatform?.includes(",")} /></section>`;
}

/** The number of packages with each licence. @param {{packages: import("./catalog.js").Package[]}} props */
function Licenses({ packages }) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { license = "" } of packages) counts.set(license || "not stated", (counts.get(license || "not stated") ?? 0) + 1);
  const all = [...counts].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
  return html`<h3 class="minor">Licences</h3><ul class="packs">${all.map(([license, n]) => html`<li key=${license}>${license} <span class="digest">${n.toLocaleString()}</span></li>`)}</ul>
    <p class="note">As stated by the channels.</p>`;
}

const day = 86_400_000;

/** The pulls of each day, or of each week if there are more than 60 days, at least of two weeks. @param {{date: string, pulls: number}[]} history */
function pullsBy(history) {
  const days = history.map(({ date, pulls }) => ({ at: Date.parse(date), pulls })).filter(({ at }) => at > 0 && at <= Date.now());
  if (!days.length) return { bars: [], weekly: false };
  const today = Math.floor(Date.now() / day);
  const from = Math.max(today - 366, Math.min(today - 13, Math.floor(days[0].at / day)));
  const weekly = today - from > 60, step = weekly ? 7 : 1;
  const bars = Array.from({ length: Math.ceil((today - from + 1) / step) }, (_, n) => ({ name: new Date((from + n * step) * day).toISOString().slice(0, 10), value: 0 }));
  for (const { at, pulls } of days) {
    const bar = bars[Math.floor((at / day - from) / step)];
    if (bar) bar.value += pulls;
  }
  return { bars, weekly };
}

/** @param {{image: Image}} props */
function Pulls({ image: { pulls = 0, lastPull, pullHistory = [] } }) {
  const { bars, weekly } = pullsBy(pullHistory);
  return html`<section><h2>Pulls</h2><p>${pulls ? `${count(pulls, "pull")}${lastPull ? `, the last on ${lastPull} (UTC)` : ""}.` : "It has not been pulled yet."}</p>
    ${bars.length > 0 && html`<${Bars} title=${weekly ? "Pulls in each week" : "Pulls on each day"} note="in UTC" what=${weekly ? "Week from" : "Day"} bars=${bars} say=${(/** @type {number} */ n) => n.toLocaleString()} />`}</section>`;
}

/** @type {[format: string, title: string, file: string][]} */
const citations = [["bibtex", "BibTeX", "citation.bib"], ["cff", "CITATION.cff", "CITATION.cff"], ["ro-crate", "RO-Crate", "ro-crate-metadata.json"]];

/** @param {{id: string, format: string, title: string, file: string}} props */
function Citation({ id, format, title, file }) {
  const at = `v1alpha1/catalog/${id}/citation?format=${format}`;
  const text = useLoad((signal) => call("GET", at, { text: true, signal }), []);
  if (text.value === undefined) return html`<${Waiting} of=${text} what="The citation" />`;
  return html`<div class="copied block"><pre class=${format === "ro-crate" ? "source" : "source wraps"} tabindex="0" aria-label=${title}>${text.value}</pre><${Copy} text=${text.value} what=${`the citation as ${title}`} /></div>
    <p class="note download"><a href=${new URL(at, root).href} download=${file}>Download ${file}</a></p>`;
}

/** @param {{id: string}} props */
function Cite({ id }) {
  const [shown, show] = useState(0);
  const [format, title, file] = citations[shown];
  return html`<section class="cite"><h2>How to cite it</h2>
    <div class="choices" aria-label="Format of the citation">${citations.map(([f, name], n) => html`<button type="button" key=${f} aria-pressed=${n === shown} onClick=${() => show(n)}>${name}</button>`)}</div>
    <${Citation} key=${format} id=${id} format=${format} title=${title} file=${file} /></section>`;
}

/** @param {{problem: unknown}} props */
function Missing({ problem }) {
  const isMissing = problem instanceof Failure && problem.status === 404;
  useEffect(() => {
    document.title = "Not found · Slipway";
  }, []);
  return html`<h1>${isMissing ? "There is no such image in the catalogue" : "The image cannot be shown"}</h1>
    <p class="lead">${isMissing ? "The address may be incomplete or mistyped, or the image was never built." : html`<${Told} text=${words(problem)} />`}</p>
    <p class="actions"><a class="button" href=${new URL("c", root).href}>Search the catalogue</a> <a href=${root.href}>Make a container</a></p>`;
}

/** Reads an image, and whether its build failed; a refusal is a result, too. @param {string} id @param {AbortSignal} signal @returns {Promise<{image?: Image, failed?: boolean, problem?: Failure}>} */
async function read(id, signal) {
  try {
    /** @type {Image} */
    const image = await call("GET", `v1alpha1/catalog/${id}`, { signal });
    const build = image.digest || !image.buildId ? undefined : await call("GET", `v1alpha1/builds/${encodeURIComponent(image.buildId)}`, { signal }).catch(() => undefined);
    return { image, failed: build?.status === "COMPLETED" && !build.succeeded };
  } catch (err) {
    if (err instanceof Failure && err.status >= 400 && err.status < 500 && err.status !== 429) return { problem: err };
    throw err;
  }
}

/** @param {{id: string}} props */
export function View({ id }) {
  const found = useLoad((signal) => read(id, signal), [id]);
  const image = found.value?.image;
  useEffect(() => {
    history.replaceState(history.state, "", catalogPage(id) + location.hash); // the name of the image may follow the id in the address
  }, [id]);
  useEffect(() => {
    if (image) document.title = `${image.name} ${image.tag} · Slipway`;
  }, [image]);
  useAgain(found.again, image && !image.digest && !image.deletionTime ? building : 0);
  if (found.value?.problem) return html`<${Missing} problem=${found.value.problem} />`;
  if (!image) return html`<h1 class="id">Kept image</h1><${Waiting} of=${found} what="The image" />`;
  const look = new URL(`view/inspect?${new URLSearchParams({ image: image.targetImage })}`, root).href;
  return html`<p class="back"><a href=${new URL("c", root).href}>Catalogue</a></p>
    <h1>${image.name} <span class="soft">${image.tag}</span></h1>
    <${Name} image=${image} failed=${!!found.value?.failed} />
    <div class="actions"><${Action} plain title="Make a variant" act=${() => vary(image)} />
      ${image.digest && !image.deletionTime && image.format !== "sif" && html`<a href=${look}>Layers, files and SBOM</a>`}
      ${image.buildId && html`<a href=${buildPage(image.buildId)}>The build and its log</a>`}</div>
    <${Facts} image=${image} />
    <${Packages} image=${image} />
    ${(image.digest || image.deletionTime) && html`<${Cite} id=${id} />`}
    <${Pulls} image=${image} />`;
}
