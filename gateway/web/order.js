// The request that the user composes, and its form in the page's address. The address can be
// shared: it contains no secrets and no issued image names.
import { computed, signal } from "@preact/signals";
import { base64 } from "./api.js";
import { environmentsOf, isExplicit, isLock, locked } from "./lockfile.js";
import { parts, secret, specs, withVersion } from "./spec.js";

/** @typedef {import("./pack.js").Layer} Layer */

/** Package specifications in the form that requests use. */
export const entries = signal(/** @type {string[]} */ ([]));
export const channels = signal(/** @type {string[]} */ ([]));
/** The age of packages: the date of the channels, the minimum age, and the names that it does not apply to. */
export const age = signal({ asOf: "", minAge: "", minAgeExcept: /** @type {string[]} */ ([]) });
export const platform = signal("linux/amd64");
/** The chosen format: "docker", "sif", or "environment" for an environment of packages without an image. */
export const format = signal("docker");
/** The source of the image: "packages", "environment", "dockerfile" or "image". */
export const kind = signal("packages");
/** Files are not in the address, since they may be long and are private. */
export const environment = signal("");
/** The chosen environment of a file that has several. */
export const environmentName = signal("");
export const dockerfile = signal("");
/** The build context of a Dockerfile, and files added to an image. */
export const context = signal(/** @type {Layer | undefined} */ (undefined));
export const files = signal(/** @type {Layer | undefined} */ (undefined));
/** The base image, and images whose layers are added to it. */
export const image = signal("");
export const includes = signal(/** @type {string[]} */ ([]));
/** Image settings as typed; variables may be secret. */
export const settings = signal({ entrypoint: "", cmd: "", workingDir: "", env: "" });

export const usualChannels = ["conda-forge", "bioconda"];

/** The channels that are searched and solved; channels with a login are left out, since their addresses are secret. */
export const searched = computed(() => (channels.value.length ? channels.value.filter((c) => !secret(c)) : usualChannels));

/** Reports whether packages are chosen one by one. */
export const isPicked = computed(() => kind.value === "packages" || kind.value === "image");

/** Reports whether the source can be an environment without an image. */
export const isMountable = computed(() => kind.value === "packages" || kind.value === "environment");

/** The requested format. */
export const made = computed(() => (format.value === "environment" && !isMountable.value ? "docker" : format.value));

/** Reports whether the image can have one platform only. */
export const isSingle = computed(() => made.value !== "docker" || (kind.value === "image" && !entries.value.length) || (kind.value === "environment" && isExplicit(environment.value)));

/** The requested platforms. */
export const platforms = computed(() => platform.value.split(",").slice(0, isSingle.value ? 1 : 2));

/** Adds a package, or replaces the entry with the same name. @param {string} entry */
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

/** The environments of a file that has several, such as a pixi.lock. */
export const environments = computed(() => environmentsOf(environment.value));

/** The environment that is requested; undefined for a file without environments. */
export const chosenEnvironment = computed(() => {
  const { names, usual } = environments.value;
  return [environmentName.value, usual].find((name) => names.includes(name)) ?? names[0];
});

/**
 * The packages of a lock, for display; requests contain the lock itself. Undefined if the
 * environment is not a lock.
 */
export const exact = computed(() => (isLock(environment.value) ? locked(environment.value, platforms.value[0], chosenEnvironment.value) : undefined));

/** The requested Conda packages in the form of the API; undefined if there are none. */
export const packages = computed(() => {
  if (kind.value === "environment" && environment.value.trim()) {
    const name = chosenEnvironment.value;
    return { type: "CONDA", environment: base64(environment.value), ...(name && name !== environments.value.usual && { environmentName: name }) };
  }
  if (!isPicked.value || !entries.value.length) return undefined;
  return { type: "CONDA", entries: entries.value, ...(channels.value.length && { channels: channels.value }) };
});

/** Splits a command into words; quoted text is one word. @param {string} text */
function wordsIn(text) {
  return [...text.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((m) => m[1] ?? m[2] ?? m[3]);
}

/** The configuration to add to the image in the form of the API; undefined if it is empty. */
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

/** The age of Conda packages in the form of the API. It does not apply to a lock. */
export const ages = computed(() => {
  const { asOf, minAge, minAgeExcept } = age.value;
  if (!packages.value || exact.value && kind.value === "environment") return {};
  return { ...(asOf && { asOf }), ...(minAge && { minAge }), ...(minAgeExcept.length && { minAgeExcept }) };
});

/** The source of the image in the form of the API; undefined if it is empty. */
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

/** The body of the container request; undefined if it is empty. */
export const order = computed(() => content.value && {
  ...content.value,
  ...ages.value,
  ...(platforms.value.join() !== "linux/amd64" && { containerPlatform: platforms.value.join() }),
  ...(made.value !== "docker" && { format: made.value }),
});

/** Reports whether the request names something that contains a login or a token. */
export const isSecret = computed(() => [image.value.trim(), ...entries.value, ...channels.value, ...includes.value].some(secret));

/** The packages in a text of the query, which has several if the form was sent without scripts. @param {string} text */
function separate(text) {
  const { entries } = specs(text);
  return entries.length > 1 ? entries : [text];
}

/** Restores the request from the page's query. @param {string} query */
export function read(query) {
  const q = new URLSearchParams(query);
  /** @param {string} name @param {number} most */
  const list = (name, most) => q.getAll(name).filter(Boolean).slice(0, most);
  entries.value = list("p", 200).flatMap(separate);
  channels.value = list("channel", 20);
  includes.value = list("include", 10);
  age.value = { asOf: q.get("asOf") ?? "", minAge: q.get("minAge") ?? "", minAgeExcept: list("minAgeExcept", 100) };
  image.value = q.get("image") ?? "";
  const of = q.get("platform") ?? "";
  platform.value = ["linux/arm64", "linux/amd64,linux/arm64"].includes(of) ? of : "linux/amd64";
  const as = q.get("format") ?? "";
  format.value = ["sif", "environment"].includes(as) ? as : "docker";
  const from = q.get("from") ?? "";
  kind.value = ["environment", "dockerfile", "image"].includes(from) ? from : "packages";
}

/** The query from which read restores the request. */
export const query = computed(() => {
  const q = new URLSearchParams();
  /** @param {string} name @param {string[]} list */
  const put = (name, list) => list.forEach((text) => text && !secret(text) && q.append(name, text));
  if (kind.value !== "packages") q.set("from", kind.value);
  put("image", [image.value.trim()]);
  put("p", entries.value);
  put("channel", channels.value);
  put("include", includes.value);
  put("asOf", [age.value.asOf]);
  put("minAge", [age.value.minAge]);
  put("minAgeExcept", age.value.minAgeExcept);
  if (platform.value !== "linux/amd64") q.set("platform", platform.value);
  if (format.value !== "docker") q.set("format", format.value);
  return q.toString();
});
