// The layers of an image, by what each weighs and what made it.
import { useState } from "preact/hooks";
import { count, html, size } from "./html.js";

/** How many layers are shown at first: images of packages have a hundred. */
const first = 8;

/**
 * @typedef {{mediaType?: string, digest: string, size?: number}} Layer
 * @typedef {{created_by?: string, comment?: string, empty_layer?: boolean}} Step
 */

/** What was run, without what builders write around it. @param {Step | undefined} step */
export function madeBy(step) {
  const text = (step?.created_by ?? "").replace(/^\/bin\/sh -c #\(nop\)\s*/, "").replace(/^(RUN )?(?:\|\d+ (?:\S+=\S* )*)?\/bin\/sh -c /, "RUN ").replace(/\s*# buildkit$/, "");
  return (text || step?.comment || "").replace(/\s+/g, " ").trim();
}

/**
 * What made each layer: the steps that made one, in their order, if they are as many.
 * @param {number} layers
 * @param {Step[]} history
 */
export function makers(layers, history) {
  const made = history.filter((h) => !h.empty_layer);
  return made.length === layers ? made.map(madeBy) : [];
}

/** A bar as wide as its part of the whole; a style attribute would be refused. @param {{part: number}} props */
function Bar({ part }) {
  return html`<svg class="weight" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect class="all" width="100" height="4" /><rect class="part" width=${Math.max(part * 100, 0.5)} height="4" /></svg>`;
}

/**
 * @param {{layers: Layer[], history: Step[], largestFirst?: boolean, platform?: string}} props platform says for which it is,
 *   where there are several
 */
export function Layers({ layers, history, largestFirst, platform }) {
  const [whole, show] = useState(false);
  const sizes = layers.map((l) => l.size ?? 0);
  const all = sizes.reduce((a, b) => a + b, 0);
  const by = makers(layers.length, history);
  const rows = layers.map((l, i) => ({ ...l, i, size: sizes[i], by: by[i] }));
  if (largestFirst) rows.sort((a, b) => b.size - a.size);
  return html`<section><h2>Layers</h2>
    <p class="note">${count(layers.length, "layer")}${all ? `, ${size(all)} to pull` : ""}${largestFirst && layers.length > 1 ? ", the largest first" : layers.length > 1 ? ", the lowest first" : ""}${platform ? `, for ${platform}` : ""}</p>
    <ol class="layers">${rows.slice(0, whole ? undefined : first).map((l) => html`<li key=${l.i}>
      <div class="head"><span class="by">${l.by || "It does not say what made this layer."}</span><span class="number">${l.size ? size(l.size) : ""}</span></div>
      <${Bar} part=${all ? l.size / all : 0} />
      <code class="digest">${l.digest}</code></li>`)}</ol>
    ${rows.length > first && !whole && html`<p><button type="button" class="pill" onClick=${() => show(true)}>Show all ${rows.length}</button></p>`}
  </section>`;
}
