// Fills the first view's form with the request of an earlier build.
import { lost } from "./again.js";
import { size } from "./html.js";
import { channels, dockerfile, entries, environment, format, image, includes, kind, platform, settings } from "./order.js";

/** @typedef {import("./again.js").Recipe} Recipe */

/** @param {Recipe} recipe */
export function fill(recipe) {
  if (recipe.platform) platform.value = recipe.platform;
  if (recipe.targetImage?.startsWith("oras://")) format.value = "sif";
  if (recipe.format === "environment" || recipe.environment && recipe.environment === recipe.digest) format.value = "environment";
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

/** Reports whether the user wrote the Dockerfile; otherwise it was generated for Conda packages. @param {Recipe} recipe */
const isOwn = ({ containerFile = "" }) => !!containerFile && !containerFile.includes("\nCOPY .slipway/ /.slipway/\n");

/** Formats words as a user types them. @param {string[] | undefined} words */
const typed = (words) => (words ?? []).map((w) => (/^[^\s"']+$/.test(w) ? w : w.includes('"') ? `'${w}'` : `"${w}"`)).join(" ");

/** Copies the configuration that was added to the image. @param {Recipe} recipe */
function add({ containerConfig: c, containerIncludes }) {
  settings.value = { entrypoint: typed(c?.entrypoint), cmd: typed(c?.cmd), workingDir: c?.workingDir ?? "", env: "" };
  includes.value = containerIncludes ?? [];
}

/** Lists the parts of a build that the view cannot show. @param {Recipe} recipe @param {boolean} onImage */
function missing(recipe, onImage) {
  const { condaOpts: o = {}, contextSize, buildCompression } = recipe;
  return [
    recipe.condaFile && isOwn(recipe) && "The Conda environment that its Dockerfile uses as conda.yml: copy it from the page of the build.",
    contextSize !== undefined && `The folder that its Dockerfile copied from${contextSize ? ` (${size(contextSize)}, compressed)` : ""}: add it again.`,
    o.baseImage && !onImage && `The base image of the packages: ${o.baseImage}.`,
    o.commands?.length && `The commands that ran after the installation: ${o.commands.join("; ")}.`,
    o.mambaImage && `The image that installed the packages: ${o.mambaImage}.`,
    o.basePackages !== undefined && `The packages that every environment gets: ${o.basePackages || "none"}.`,
    o.compile && "The compilation of Python modules.",
    buildCompression && "The compression of its layers.",
  ].filter((text) => typeof text === "string");
}

/** Lists the parts of a request's configuration that the view cannot show. @param {Recipe} recipe @param {boolean} onImage */
function unadded({ containerConfig: c = {}, containerIncludes: i = [] }, onImage) {
  const set = c.entrypoint?.length || c.cmd?.length || c.workingDir || i.length;
  return [
    set && !onImage && "The settings and the layers of other images that were added to the image.",
    c.env?.length && `The variables ${c.env.join(", ")}: their values are never shown.`,
    c.layers?.length && "The files that were added to the image: add them again.",
  ].filter((text) => typeof text === "string");
}

/**
 * Returns the channels and packages of an environment file that lists nothing else, so that the
 * view shows them as chosen packages. Otherwise it returns undefined.
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
