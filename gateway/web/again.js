// What was built is asked for once more: the first view is opened with the same order.
// Recipes may be long, and are nobody else's: they go by the tab's own storage.
import { batch, signal } from "@preact/signals";
import { root } from "./api.js";
import { size } from "./html.js";
import { channels, dockerfile, entries, environment, format, image, includes, kind, platform, settings } from "./order.js";

const key = "slipway.again";

/**
 * @typedef {{baseImage?: string, mambaImage?: string, basePackages?: string, commands?: string[], compile?: boolean}} CondaOpts
 * @typedef {{entrypoint?: string[], cmd?: string[], env?: string[], workingDir?: string, layers?: object[]}} Config
 * @typedef {{containerFile?: string, condaFile?: string, condaOpts?: CondaOpts, contextSize?: number, buildCompression?: object,
 *   platform?: string, targetImage?: string, containerConfig?: Config, containerIncludes?: string[]}} Recipe what is known of a
 *   build's, and of the request's
 */

/** What of it is not kept, or has no place in this view, in words. */
export const lost = signal(/** @type {string[]} */ ([]));

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
  const base = recipe.condaOpts?.baseImage ?? "";
  const own = isOwn(recipe);
  const listed = recipe.condaFile && !own ? entriesIn(recipe.condaFile) : undefined;
  if (listed) {
    kind.value = base ? "image" : "packages";
    image.value = base;
    entries.value = listed.entries;
    channels.value = listed.channels;
  } else if (recipe.condaFile && !own) {
    kind.value = "environment";
    environment.value = recipe.condaFile;
  } else if (recipe.containerFile) {
    kind.value = "dockerfile";
    dockerfile.value = recipe.containerFile;
  }
  const onImage = kind.value === "image";
  if (onImage) add(recipe);
  lost.value = [...missing(recipe, onImage), ...unadded(recipe, onImage)];
}

/** Whether the Dockerfile is somebody's own, and not made for Conda packages. @param {Recipe} recipe */
const isOwn = ({ containerFile = "" }) => !!containerFile && !containerFile.includes("\nCOPY .slipway/ /.slipway/\n");

/** Words as they are typed. @param {string[] | undefined} words */
const typed = (words) => (words ?? []).map((w) => (/^[^\s"']+$/.test(w) ? w : w.includes('"') ? `'${w}'` : `"${w}"`)).join(" ");

/** Takes over what was added to the image. @param {Recipe} recipe */
function add({ containerConfig: c, containerIncludes }) {
  settings.value = { entrypoint: typed(c?.entrypoint), cmd: typed(c?.cmd), workingDir: c?.workingDir ?? "", env: "" };
  includes.value = containerIncludes ?? [];
}

/** What of a build is not in the view. @param {Recipe} recipe @param {boolean} onImage */
function missing(recipe, onImage) {
  const { condaOpts: o = {}, contextSize, buildCompression } = recipe;
  return [
    recipe.condaFile && isOwn(recipe) && "The Conda environment that its Dockerfile found as conda.yml: it is on the page of the build.",
    contextSize !== undefined && `The folder that it copied from${contextSize ? ` (${size(contextSize)}, compressed)` : ""}: put it in again.`,
    o.baseImage && !onImage && `The image that the packages were put on: ${o.baseImage}.`,
    o.commands?.length && `The lines that were run on the packages: ${o.commands.join("; ")}.`,
    o.mambaImage && `The image that installed the packages: ${o.mambaImage}.`,
    o.basePackages !== undefined && `The packages that every environment gets: ${o.basePackages || "none"}.`,
    o.compile && "That Python's modules were compiled.",
    buildCompression && "How its layers were compressed.",
  ].filter((text) => typeof text === "string");
}

/** What of a request's additions is not in the view. @param {Recipe} recipe @param {boolean} onImage */
function unadded({ containerConfig: c = {}, containerIncludes: i = [] }, onImage) {
  const set = c.entrypoint?.length || c.cmd?.length || c.workingDir || i.length;
  return [
    set && !onImage && "The settings, and layers of other images, that were added to it.",
    c.env?.length && `The variables ${c.env.join(", ")}: their values are shown to nobody.`,
    c.layers?.length && "The files that were added to it: put them in again.",
  ].filter((text) => typeof text === "string");
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
