// What is being put together, and how it stands in the address, which can be shared:
// it holds no secret, and never a name that was given out.
import { computed, signal } from "@preact/signals";
import { base64 } from "./api.js";
import { isLock, locked } from "./lockfile.js";
import { parts, secret, withVersion } from "./spec.js";

/** @typedef {import("./pack.js").Layer} Layer */

/** Package specifications, as they are sent. */
export const entries = signal(/** @type {string[]} */ ([]));
export const channels = signal(/** @type {string[]} */ ([]));
export const platform = signal("linux/amd64");
export const format = signal("docker");
/** What it is made from: "packages", "environment", "dockerfile" or "image". */
export const kind = signal("packages");
/** Files are not in the address: they may be long, and are nobody else's. */
export const environment = signal("");
export const dockerfile = signal("");
/** What a Dockerfile copies from, and what is added to an image. */
export const context = signal(/** @type {Layer | undefined} */ (undefined));
export const files = signal(/** @type {Layer | undefined} */ (undefined));
/** The image that is added to, and images whose layers are added to it. */
export const image = signal("");
export const includes = signal(/** @type {string[]} */ ([]));
/** Settings of the image, as they are typed; variables may be secret. */
export const settings = signal({ entrypoint: "", cmd: "", workingDir: "", env: "" });

export const usualChannels = ["conda-forge", "bioconda"];

/** Where a search looks, and a solve; those with a login are not for addresses. */
export const searched = computed(() => (channels.value.length ? channels.value.filter((c) => !secret(c)) : usualChannels));


/** Whether packages are chosen one by one. */
export const isPicked = computed(() => kind.value === "packages" || kind.value === "image");

/** Whether it can be for one platform alone. */
export const isSingle = computed(() => format.value === "sif" || (kind.value === "image" && !entries.value.length) || (kind.value === "environment" && isLock(environment.value)));

/** Which platforms are asked for, one by one. */
export const platforms = computed(() => platform.value.split(",").slice(0, isSingle.value ? 1 : 2));

/** Puts a package in, in place of the one that has its name. @param {string} entry */
export function add(entry) {
  const { name } = parts(entry);
  const at = entries.value.findIndex((e) => parts(e).name === name);
  entries.value = at < 0 ? [...entries.value, entry] : entries.value.with(at, entry);
}

/** @param {string} entry */
export function remove(entry) {
  entries.value = entries.value.filter((e) => e !== entry);
}

/** @param {string} entry @param {string} version */
export function choose(entry, version) {
  entries.value = entries.value.map((e) => (e === entry ? withVersion(entry, version) : e));
}

/** The packages that a lock lists; undefined where the environment is none. */
export const exact = computed(() => (isLock(environment.value) ? locked(environment.value, platforms.value[0]) : undefined));

/** The Conda packages that are asked for, as requests have them; undefined if there are none. */
export const packages = computed(() => {
  if (kind.value === "environment" && exact.value) return exact.value.length ? { type: "CONDA", entries: exact.value } : undefined;
  if (kind.value === "environment" && environment.value.trim()) return { type: "CONDA", environment: base64(environment.value) };
  if (!isPicked.value || !entries.value.length) return undefined;
  return { type: "CONDA", entries: entries.value, ...(channels.value.length && { channels: channels.value }) };
});

/** The words of a command; quotes hold some together. @param {string} text */
function wordsIn(text) {
  return [...text.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((m) => m[1] ?? m[2] ?? m[3]);
}

/** What is added to the image, as requests have it; undefined if that is nothing. */
const config = computed(() => {
  const { entrypoint, cmd, workingDir, env } = settings.value;
  const out = {
    ...(entrypoint.trim() && { entrypoint: wordsIn(entrypoint) }),
    ...(cmd.trim() && { cmd: wordsIn(cmd) }),
    ...(workingDir.trim() && { workingDir: workingDir.trim() }),
    ...(env.trim() && { env: env.split("\n").map((l) => l.trim()).filter(Boolean) }),
    ...(files.value && { layers: [files.value.layer] }),
  };
  return Object.keys(out).length ? out : undefined;
});

/** What it is made from, as requests have it; undefined if that is nothing. */
const content = computed(() => {
  const base = image.value.trim();
  if (kind.value === "image") {
    return base && {
      ...(packages.value ? { packages: { ...packages.value, condaOpts: { baseImage: base } } } : { containerImage: base }),
      ...(config.value && { containerConfig: config.value }),
      ...(includes.value.length && { containerIncludes: includes.value }),
    };
  }
  if (kind.value === "dockerfile") {
    return dockerfile.value.trim() && { containerFile: base64(dockerfile.value), ...(context.value && { buildContext: context.value.layer }) };
  }
  return packages.value && { packages: packages.value };
});

/** What is asked for: the body of a container request; undefined if there is nothing. */
export const order = computed(() => content.value && {
  ...content.value,
  ...(platforms.value.join() !== "linux/amd64" && { containerPlatform: platforms.value.join() }),
  ...(format.value !== "docker" && { format: format.value }),
});

/** Reads an address's query. @param {string} query */
export function read(query) {
  const q = new URLSearchParams(query);
  /** @param {string} name @param {number} most */
  const list = (name, most) => q.getAll(name).filter(Boolean).slice(0, most);
  entries.value = list("p", 200);
  channels.value = list("channel", 20);
  includes.value = list("include", 10);
  image.value = q.get("image") ?? "";
  const of = q.get("platform") ?? "";
  platform.value = ["linux/arm64", "linux/amd64,linux/arm64"].includes(of) ? of : "linux/amd64";
  format.value = q.get("format") === "sif" ? "sif" : "docker";
  const from = q.get("from") ?? "";
  kind.value = ["environment", "dockerfile", "image"].includes(from) ? from : "packages";
}

/** The query that read understands. */
export const query = computed(() => {
  const q = new URLSearchParams();
  /** @param {string} name @param {string[]} list */
  const put = (name, list) => list.forEach((text) => text && !secret(text) && q.append(name, text));
  if (kind.value !== "packages") q.set("from", kind.value);
  put("image", [image.value.trim()]);
  put("p", entries.value);
  put("channel", channels.value);
  put("include", includes.value);
  if (platform.value !== "linux/amd64") q.set("platform", platform.value);
  if (format.value !== "docker") q.set("format", format.value);
  return q.toString();
});
