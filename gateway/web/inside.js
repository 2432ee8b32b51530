// The contents of an image. Reading them counts as a pull, so they are loaded only when the
// user opens them.
import { useState } from "preact/hooks";
import { Action } from "./action.js";
import { call } from "./api.js";
import { html } from "./html.js";
import { Layers } from "./layers.js";

/** @typedef {{config?: {history?: import("./layers.js").Step[]}, manifest?: {layers?: import("./layers.js").Layer[]}}} Image */

/**
 * @param {{name: () => Promise<string>, platform?: string}} props name returns the name by which the image can be pulled
 */
export function Inside({ name, platform }) {
  const [image, set] = useState(/** @type {(Image & {found: string}) | undefined} */ (undefined));
  const one = platform?.split(",")[0];
  const look = async () => {
    const at = `v1alpha1/inspect${one ? `?platform=${encodeURIComponent(one)}` : ""}`;
    const found = await name();
    set({ ...(await call("POST", at, { body: { containerImage: found } })).container, found });
  };
  if (!image) return html`<div class="actions"><${Action} plain title="Show its layers" act=${look} /></div>`;
  return html`<${Layers} layers=${image.manifest?.layers ?? []} history=${image.config?.history ?? []} image=${image.found} platform=${one ?? ""}
    said=${one !== platform ? one : ""} largestFirst />`;
}
