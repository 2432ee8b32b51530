// The page that inspects any image.
import { useEffect, useState } from "preact/hooks";
import { Action } from "./action.js";
import { call, isAborted, words } from "./api.js";
import { Copied } from "./copy.js";
import { html, moment, size } from "./html.js";
import { Layers, madeBy } from "./layers.js";
import { secret } from "./spec.js";
import { Told } from "./told.js";
import { Vulnerabilities } from "./vulnerabilities.js";

/**
 * @typedef {import("./layers.js").Layer} Layer
 * @typedef {{env?: string[], cmd?: string[], entrypoint?: string[], user?: string, workingDir?: string, labels?: Record<string, string>}} Settings
 * @typedef {{registry?: string, imageName?: string, reference?: string, digest?: string,
 *   config?: {architecture?: string, created?: string, config?: Settings, history?: import("./layers.js").Step[]}, manifest?: {layers?: Layer[]}}} Container
 * @typedef {{platform?: {os?: string, architecture?: string, variant?: string}}} Entry
 * @typedef {{container: Container, index?: {manifests?: Entry[]}}} Found
 * @typedef {{image: string, platform: string}} Asked
 * @typedef {{mediaType?: string, artifactType?: string, digest: string, size: number}} Referrer
 * @typedef {{name: string, version: string, build?: string, channel?: string, subdir?: string, license?: string, kind: string, layer?: string, prefix?: string}} ImagePackage
 */

/** Reads the page's query. @returns {Asked} */
function asked() {
  const q = new URLSearchParams(location.search);
  return { image: q.get("image") ?? "", platform: q.get("platform") ?? "" };
}

/** Puts the query in the page's address, unless it contains the token of an image name. @param {Asked} a */
function show({ image, platform }) {
  const q = new URLSearchParams({ image, ...(platform && { platform }) });
  history.replaceState(null, "", image && !secret(image) ? `?${q}` : location.pathname);
}

/** The platforms of an image. @param {Found} found */
function platformsOf(found) {
  const all = (found.index?.manifests ?? []).map((m) => [m.platform?.os, m.platform?.architecture, m.platform?.variant].filter(Boolean).join("/"));
  return [...new Set(all)].filter((p) => p && !p.startsWith("unknown"));
}

/** @param {{title: string, list?: string[]}} props */
function Row({ title, list }) {
  return list?.length ? html`<dt>${title}</dt><dd><code>${list.join(" ")}</code></dd>` : null;
}

/** All build steps, including those that made no layer. @param {{steps: import("./layers.js").Step[], layers: number}} props */
function History({ steps, layers }) {
  const empty = steps.some((s) => s.empty_layer);
  if (!steps.length || (!empty && steps.length === layers)) return null; // the list of layers shows the same
  return html`<section><h2>History</h2><ol class="history">${steps.map((s, i) => html`<li key=${i} class=${s.empty_layer ? "empty" : ""}>
    <code>${madeBy(s) || "Not recorded."}</code>${s.empty_layer && html`<span class="unseen"> (no layer)</span>`}</li>`)}</ol>
    <p class="note">As recorded in the image, unverified.${empty && " Steps in grey made no layer."}</p></section>`;
}

/** The referrers of the image, such as signatures and SBOMs, loaded on demand. @param {{query: Asked}} props */
function Referrers({ query }) {
  const [list, set] = useState(/** @type {Referrer[] | undefined} */ (undefined));
  const look = async () => {
    const at = `v1alpha1/inspect?referrers=true${query.platform ? `&platform=${encodeURIComponent(query.platform)}` : ""}`;
    set((await call("POST", at, { body: { containerImage: query.image } })).referrers ?? []);
  };
  return html`<section><h2>Signatures and other artifacts</h2>
    ${!list ? html`<div class="actions"><${Action} plain title="Find referrers" act=${look} /></div>`
      : !list.length ? html`<p class="note" role="status">The registry has no referrers of this image.</p>`
      : html`<div class="scroll" tabindex="0" role="region" aria-label="Referrers of the image"><table>
        <thead><tr><th scope="col">Kind</th><th scope="col">Digest</th><th scope="col" class="number">Size</th></tr></thead>
        <tbody>${list.map((r) => html`<tr key=${r.digest}><td>${r.artifactType || r.mediaType}</td><td class="digest">${r.digest}</td><td class="number">${size(r.size)}</td></tr>`)}</tbody>
      </table></div>`}
  </section>`;
}

/** The Conda packages by the lock or the conda-meta folders in the image, which are only read on request. @param {{query: Asked}} props */
function Packages({ query }) {
  const [found, set] = useState(/** @type {{packages?: ImagePackage[], problem?: string, source?: string} | undefined} */ (undefined));
  const load = async () => {
    const at = `v1alpha1/inspect/packages${query.platform ? `?platform=${encodeURIComponent(query.platform)}` : ""}`;
    const { platforms = [] } = await call("POST", at, { body: { containerImage: query.image } });
    const shown = platforms.find((/** @type {any} */ p) => p.platform === query.platform) ?? platforms[0];
    set(shown ?? {});
  };
  const list = found?.packages ?? [];
  const several = list.some((p) => p.prefix !== list[0].prefix);
  return html`<section><h2>Conda packages</h2>
    ${!found ? html`<div class="actions"><${Action} plain title="Show the packages" act=${load} /></div>`
      : !list.length ? html`<p class="note" role="status">${found.problem ?? "The image has no packages."}</p>`
      : html`<div class="scroll" tabindex="0" role="region" aria-label="Conda packages of the image"><table class="packages">
        <thead><tr><th scope="col">Name</th><th scope="col">Version</th><th scope="col">Build</th><th scope="col">Channel</th><th scope="col">Licence</th>${several && html`<th scope="col">Environment</th>`}<th scope="col">Layer</th></tr></thead>
        <tbody>${list.map((p) => html`<tr key=${`${p.prefix} ${p.kind} ${p.name} ${p.version} ${p.build}`}><td>${p.name}</td><td>${p.version}</td><td>${p.build}</td>
          <td>${p.channel}${p.kind === "conda" && p.subdir && !p.channel?.endsWith(`/${p.subdir}`) ? `/${p.subdir}` : ""}</td><td>${p.license}</td>${several && html`<td>${p.prefix}</td>`}<td class="digest" title=${p.layer}>${p.layer?.slice(0, 19)}</td></tr>`)}</tbody>
      </table></div>
      ${found.problem && html`<p class="note" role="status">${found.problem}.</p>`}
      ${found.source === "conda-meta" && html`<p class="note">From the records of installed packages in the image, since it has no lock.</p>`}`}
  </section>`;
}

/** Downloads of the bill of materials. The call has the token of the session, which a link would not send. The file is named by the last part of the image's name: others may have a token. @param {{query: Asked, name: string}} props */
function Bill({ query, name }) {
  /** @param {string} format @param {string} extension */
  const save = async (format, extension) => {
    const q = new URLSearchParams({ image: query.image, format, ...(query.platform && { platform: query.platform }) });
    const at = URL.createObjectURL(new Blob([await call("GET", `v1alpha1/images/sbom?${q}`, { text: true })], { type: "application/json" }));
    Object.assign(document.createElement("a"), { href: at, download: `${name.split("/").pop()?.replace(/[^A-Za-z0-9.-]+/g, "-")}.${extension}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(at), 60_000); // the download has begun by then
  };
  return html`<section><h2>Bill of materials</h2>
    <p class="note">The packages of Conda, Debian, Alpine, Python and R in the image, with their licences, as a document for other tools.</p>
    <div class="actions"><${Action} plain title="Download as SPDX" act=${() => save("spdx", "spdx")} />
      <${Action} plain title="Download as CycloneDX" act=${() => save("cyclonedx", "cdx")} /></div>
  </section>`;
}

/** @param {{title: string, lines: string[]}} props */
function Lines({ title, lines }) {
  if (!lines.length) return null;
  return html`<section><h2>${title}</h2><pre class="source" tabindex="0" aria-label=${title}>${lines.join("\n")}</pre></section>`;
}

/** @param {{found: Found, query: Asked, choose: (platform: string) => void}} props */
function Image({ found, query, choose }) {
  const { container } = found;
  const settings = container.config?.config ?? {};
  const created = container.config?.created ?? "";
  const all = platformsOf(found);
  const shown = query.platform || all.find((p) => p === `linux/${container.config?.architecture}`);
  return html`
    <section aria-labelledby="image-title"><h2 id="image-title">${container.registry}/${container.imageName}${container.reference?.includes(":") ? "@" : ":"}${container.reference}</h2>
    ${all.length > 1 && html`<div class="choices" role="group" aria-label="Platform">
      ${all.map((p) => html`<button type="button" key=${p} aria-pressed=${p === shown} onClick=${() => choose(p)}>${p}</button>`)}</div>`}
    <dl class="facts">
      ${container.config?.architecture && html`<dt>Platform</dt><dd>${container.config.architecture}</dd>`}
      ${created > "1971" && html`<dt>Made</dt><dd>${moment(created)}</dd>`}
      <${Row} title="Entrypoint" list=${settings.entrypoint} />
      <${Row} title="Command" list=${settings.cmd} />
      <${Row} title="Folder" list=${settings.workingDir ? [settings.workingDir] : []} />
      <${Row} title="User" list=${settings.user ? [settings.user] : []} />
      ${container.digest && html`<dt>Digest</dt><dd><${Copied} text=${container.digest} what="the digest" /></dd>`}
    </dl></section>
    <${Layers} layers=${container.manifest?.layers ?? []} history=${container.config?.history ?? []} image=${query.image} platform=${query.platform} />
    <${Packages} key=${`packages ${query.image} ${query.platform} ${container.digest}`} query=${{ ...query, platform: shown ?? "" }} />
    <${Bill} query=${{ ...query, platform: shown ?? "" }} name=${container.imageName ?? "image"} />
    <${Vulnerabilities} key=${`vulnerabilities ${query.image} ${query.platform} ${container.digest}`} query=${{ ...query, platform: shown ?? "" }} />
    <${Lines} title="Variables" lines=${settings.env ?? []} />
    <${Lines} title="Labels" lines=${Object.entries(settings.labels ?? {}).map(([k, v]) => `${k}=${v}`)} />
    <${History} steps=${container.config?.history ?? []} layers=${container.manifest?.layers?.length ?? 0} />
    <${Referrers} key=${`${query.image} ${query.platform}`} query=${query} />`;
}

export function View() {
  const [query, ask] = useState(asked);
  const [typed, type] = useState(query.image);
  const [found, tell] = useState(/** @type {Found | undefined} */ (undefined));
  const [problem, say] = useState("");
  useEffect(() => {
    document.title = "Look inside an image · Slipway";
    show(query);
    if (!query.image) return undefined;
    const ended = new AbortController();
    tell(undefined);
    say("");
    const at = `v1alpha1/inspect${query.platform ? `?platform=${encodeURIComponent(query.platform)}` : ""}`;
    call("POST", at, { body: { containerImage: query.image }, signal: ended.signal }).then(tell, (err) => isAborted(err) || say(words(err)));
    return () => ended.abort();
  }, [query]);
  return html`
    <h1>Look inside an image</h1>
    <p class="lead">Any image that this service can read: from a registry, or a name that the service issued.</p>
    <form class="look" onSubmit=${(/** @type {Event} */ e) => {
      e.preventDefault();
      if (typed.trim()) ask({ image: typed.trim(), platform: "" });
    }}>
      <label for="image">Image</label>
      <div class="line"><input id="image" type="text" autocapitalize="none" autocomplete="off" spellcheck=${false} placeholder="docker.io/library/alpine:3.20"
        value=${typed} onInput=${(/** @type {any} */ e) => type(e.currentTarget.value)} /><button class="button" disabled=${!typed.trim()}>Look inside</button></div>
    </form>
    <div role="status">${query.image && !found && !problem ? html`<p class="note">Reading the image…</p>` : ""}</div>
    ${problem && html`<div class="failed" role="alert"><h2>The image cannot be read</h2><pre class="why"><${Told} text=${problem} /></pre></div>`}
    ${found && html`<${Image} found=${found} query=${query} choose=${(/** @type {string} */ platform) => ask({ ...query, platform })} />`}`;
}
