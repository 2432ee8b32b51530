// What was built is asked for once more: the first view is opened with the same order.
// Recipes may be long, and are nobody else's: they go by the tab's own storage.
import { batch } from "@preact/signals";
import { root } from "./api.js";
import { channels, dockerfile, entries, environment, format, kind, platform } from "./order.js";

const key = "slipway.again";

/**
 * @typedef {{containerFile?: string, condaFile?: string, platform?: string, targetImage?: string}} Recipe what is known of a
 *   build's
 */

/** Opens the first view with an order. @param {Recipe} recipe */
export function again(recipe) {
  try {
    sessionStorage.setItem(key, JSON.stringify(recipe));
  } catch { /* then the view is empty */ }
  location.assign(root);
}

/** Whether it is known well enough what was asked for. @param {Recipe} recipe */
export const canRepeat = (recipe) => !!(recipe.condaFile || recipe.containerFile);

/** Takes over what another view has left. */
export function resume() {
  /** @type {Recipe} */
  let left;
  try {
    left = JSON.parse(sessionStorage.getItem(key) ?? "null");
    sessionStorage.removeItem(key);
  } catch {
    return;
  }
  if (left) batch(() => fill(left));
}

/** @param {Recipe} recipe */
function fill(recipe) {
  if (recipe.platform) platform.value = recipe.platform;
  if (recipe.targetImage?.startsWith("oras://")) format.value = "sif";
  const listed = recipe.condaFile ? entriesIn(recipe.condaFile) : undefined;
  if (listed) {
    kind.value = "packages";
    entries.value = listed.entries;
    channels.value = listed.channels;
  } else if (recipe.condaFile) {
    kind.value = "environment";
    environment.value = recipe.condaFile;
  } else if (recipe.containerFile) {
    kind.value = "dockerfile";
    dockerfile.value = recipe.containerFile;
  }
}

/**
 * What an environment file lists, where it is nothing but channels and packages: so those
 * are written that were chosen one by one.
 * @param {string} text
 */
function entriesIn(text) {
  /** @type {Record<string, string[]>} */
  const lists = { channels: [], dependencies: [] };
  let into = "";
  for (const line of text.split("\n").filter((l) => l.trim())) {
    const begins = /^(\w+):\s*$/.exec(line);
    const item = /^\s*- ["']?([^"'{}#]+?)["']?\s*$/.exec(line);
    if (begins && lists[begins[1]]) into = begins[1];
    else if (item && into && !item[1].endsWith(":")) lists[into].push(item[1]);
    else return undefined;
  }
  return lists.dependencies.length ? { entries: lists.dependencies, channels: lists.channels } : undefined;
}
