// The packages that a build installed.
import { useEffect, useState } from "preact/hooks";
import { call, root } from "./api.js";
import { count, html, size } from "./html.js";

/** @typedef {{name: string, version: string, license?: string, size?: number}} Package */

/**
 * Links to lock files for other tools.
 * @param {{at: string, name: string, several: boolean}} props at is the path of the lock, and name the beginning of the
 *   names of the files; several is set for an image with several platforms
 */
export function Downloads({ at, name, several }) {
  /** @type {[string, string, string][]} */
  const all = [["explicit", "conda", "txt"], ["conda-lock", "conda-lock", "yml"], ["pixi", "pixi", "lock"]];
  const offered = several ? all.slice(1) : all; // explicit locks have one platform only
  return html`<p class="note download">Download a lock for ${offered.map(([format, title, ext], i) => html`${i > 0 && (i === offered.length - 1 ? " or " : ", ")}<a key=${format}
    href=${new URL(`${at}?format=${format}`, root).href} download=${`${name}-${format}.${ext}`}>${title}</a>`)}.</p>`;
}

/** @param {{id: string}} props */
export function Packages({ id }) {
  const [locks, set] = useState(/** @type {{platform: string, size?: number, packages?: Package[]}[]} */ ([]));
  useEffect(() => {
    call("GET", `v1alpha1/builds/${id}/lock`).then((l) => set(l.locks ?? []), () => set([])); // many builds have none
  }, [id]);
  if (!locks.length) return null;
  return html`<section><h2>Packages</h2>
    ${locks.map((l) => html`<div key=${l.platform}>
      <p class="note">${count(l.packages?.length ?? 0, "package")}, ${size(l.size ?? 0)}, for ${l.platform}</p>
      <div class="scroll" tabindex="0" role="region" aria-label=${`Packages for ${l.platform}`}><table>
        <thead><tr><th scope="col">Package</th><th scope="col">Version</th><th scope="col">Licence</th><th scope="col" class="number">Size</th></tr></thead>
        <tbody>${(l.packages ?? []).map((p) => html`<tr key=${p.name}><td>${p.name}</td><td>${p.version}</td><td>${p.license ?? ""}</td>
          <td class="number">${p.size ? size(p.size) : ""}</td></tr>`)}</tbody></table></div></div>`)}
    <${Downloads} at=${`v1alpha1/builds/${id}/lock`} name=${id} several=${locks.length > 1} /></section>`;
}
