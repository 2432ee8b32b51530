// "Build again": opens the first view with the request of an earlier build. The request is
// passed in the tab's own storage, because it may be long and is private.
import { signal } from "@preact/signals";
import { root } from "./api.js";

const key = "slipway.again";

/**
 * @typedef {{baseImage?: string, mambaImage?: string, basePackages?: string, commands?: string[], compile?: boolean}} CondaOpts
 * @typedef {{entrypoint?: string[], cmd?: string[], env?: string[], workingDir?: string, layers?: object[]}} Config
 * @typedef {{containerFile?: string, condaFile?: string, condaOpts?: CondaOpts, contextSize?: number, buildCompression?: object,
 *   platform?: string, targetImage?: string, containerConfig?: Config, containerIncludes?: string[], digest?: string, environment?: string, format?: string}} Recipe the known parts of a
 *   build and of its request
 */

/** The parts of the request that are not stored, or that this view cannot show, as sentences. */
export const lost = signal(/** @type {string[]} */ ([]));

/** Opens the first view with a request. @param {Recipe} recipe */
export function again(recipe) {
  try {
    sessionStorage.setItem(key, JSON.stringify(recipe));
  } catch { /* then the view opens empty */ }
  location.assign(root);
}

/** Reports whether enough of the request is known to repeat it. @param {Recipe} recipe */
export const canRepeat = (recipe) => !!(recipe.condaFile || recipe.containerFile);

/** Returns a function that fills the form with the request that another view has stored; undefined without a stored request. */
export async function resume() {
  /** @type {Recipe} */
  let left;
  try {
    left = JSON.parse(sessionStorage.getItem(key) ?? "null");
    sessionStorage.removeItem(key);
  } catch {
    return undefined;
  }
  if (!left) return undefined;
  const { fill } = await import("./resume.js");
  return () => fill(left);
}
