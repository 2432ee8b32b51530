// The layers of an image, with their sizes and the steps that made them.
import { useState } from "preact/hooks";
import { count, html, size } from "./html.js";
import { Later } from "./later.js";

/** The number of layers that are shown at first; images of packages may have a hundred. */
const first = 8;

/**
 * @typedef {{mediaType?: string, digest: string, size?: number}} Layer
 * @typedef {{created_by?: string, comment?: string, empty_layer?: boolean}} Step
 */

/** The command of a step, without the prefix that builders add. @param {Step | undefined} step */
export function madeBy(step) {
  const text = (step?.created_by ?? "").replace(/^\/bin\/sh -c #\(nop\)\s*/, "").replace(/^(RUN )?(?:\|\d+ (?:\S+=\S* )*)?\/bin\/sh -c /, "RUN ").replace(/\s*# buildkit$/, "");
  return (text || step?.comment || "").replace(/\s+/g, " ").trim();
}

/**
 * The steps that made the layers, in order. Empty if their numbers differ.
 * @param {number} layers
 * @param {Step[]} history
 */
export function makers(layers, history) {
  const made = history.filter((h) => !h.empty_layer);
  return made.length === layers ? made.map(madeBy) : [];
}

/** A bar that shows a share of the whole. It is an SVG, since the content security policy forbids style attributes. @param {{part: number}} props */
function Bar({ part }) {
  return html`<svg class="weight" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect class="all" width="100" height="4" /><rect class="part" width=${Math.max(part * 100, 0.5)} height="4" /></svg>`;
}

/**
 * A layer whose files can be listed.
 * @param {{layer: Layer & {size: number, by?: string}, number: number, part: number, image: string, platform: string}} props
 */
function One({ layer, number, part, image, platform }) {
  const [open, turn] = useState(false);
  const name = `layer ${number}`, id = `files-${number}`;
  return html`<li>
    <div class="head"><span class="by">${layer.by || "The step that made this layer is not recorded."}</span><span class="number">${layer.size ? size(layer.size) : ""}</span></div>
    <${Bar} part=${part} />
    <div class="head"><code class="digest">${layer.digest}</code><button type="button" class="link" aria-expanded=${open} aria-controls=${id}
      onClick=${() => turn(!open)}>${open ? "Hide" : "Show"} files<span class="unseen"> of ${name}</span></button></div>
    <div id=${id} class="inside">${open && html`<${Later} load=${() => import("./contents.js")} image=${image} platform=${platform} layer=${layer.digest} name=${name} />`}</div></li>`;
}

/**
 * @param {{layers: Layer[], history: Step[], image: string, platform: string, largestFirst?: boolean, said?: string}} props image
 *   and platform identify the image; said names the shown platform if there are several
 */
export function Layers({ layers, history, image, platform, largestFirst, said }) {
  const [whole, show] = useState(false);
  const sizes = layers.map((l) => l.size ?? 0);
  const all = sizes.reduce((a, b) => a + b, 0);
  const by = makers(layers.length, history);
  const rows = layers.map((l, i) => ({ ...l, i, size: sizes[i], by: by[i] }));
  if (largestFirst) rows.sort((a, b) => b.size - a.size);
  return html`<section><h2>Layers</h2>
    <p class="note">${count(layers.length, "layer")}${all ? `, ${size(all)} to pull` : ""}${largestFirst && layers.length > 1 ? ", the largest first" : layers.length > 1 ? ", the lowest first" : ""}${said ? `, for ${said}` : ""}</p>
    <ol class="layers">${rows.slice(0, whole ? undefined : first).map((l) => html`<${One} key=${`${platform} ${l.i} ${l.digest}`} layer=${l} number=${l.i + 1}
      part=${all ? l.size / all : 0} image=${image} platform=${platform} />`)}</ol>
    ${rows.length > first && !whole && html`<p><button type="button" class="pill" onClick=${() => show(true)}>Show all ${rows.length}</button></p>`}
  </section>`;
}
