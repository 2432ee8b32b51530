// What is being put together, and how it stands in the address, which can be shared:
// it holds no secret, and never a name that was given out.
import { computed, signal } from "@preact/signals";
import { base64 } from "./api.js";

/** Package specifications, as they are sent. */
export const entries = signal(/** @type {string[]} */ ([]));
export const channels = signal(/** @type {string[]} */ ([]));
export const platform = signal("linux/amd64");
export const format = signal("docker");
/** What it is made from: "packages", "environment" or "dockerfile". */
export const kind = signal("packages");
/** Files are not in the address: they may be long, and are nobody else's. */
export const environment = signal("");
export const dockerfile = signal("");

export const usualChannels = ["conda-forge", "bioconda"];

/** Where a search looks, and a solve. */
export const searched = computed(() => (channels.value.length ? channels.value : usualChannels));

/** Which platforms are asked for, one by one. */
export const platforms = computed(() => platform.value.split(","));

const simple = /^(?:([\w.-]+)::)?([\w.-]+)(?:(?:\s*=\s*|\s+)([\w.!+*-]+))?$/;

/**
 * A specification's name and version; version is undefined where it says more than
 * a picker can show, and "" for any.
 * @param {string} entry
 * @returns {{channel: string, name: string, version: string | undefined}}
 */
export function parts(entry) {
  const m = simple.exec(entry);
  if (m) return { channel: m[1] ?? "", name: m[2], version: (m[3] ?? "").replace(/\.?\*$/, "") };
  const name = /^(?:([\w.-]+)::)?([\w.-]+)/.exec(entry);
  return { channel: name?.[1] ?? "", name: name?.[2] ?? entry, version: undefined };
}

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

/** @param {string} entry @param {string} version */
function withVersion(entry, version) {
  const { channel, name } = parts(entry);
  return (channel && `${channel}::`) + name + (version && `=${version}`);
}

/** A specification as people write it: "samtools 1.20.*" is "samtools=1.20". @param {string} entry */
export function plain(entry) {
  const { version } = parts(entry);
  return version === undefined ? entry : withVersion(entry, version);
}

/** The Conda packages that are asked for, as requests have them; undefined if there are none. */
export const packages = computed(() => {
  if (kind.value === "environment" && environment.value.trim()) return { type: "CONDA", environment: base64(environment.value) };
  if (kind.value !== "packages" || !entries.value.length) return undefined;
  return { type: "CONDA", entries: entries.value, ...(channels.value.length && { channels: channels.value }) };
});

/** What is asked for: the body of a container request; undefined if there is nothing. */
export const order = computed(() => {
  const recipe = kind.value === "dockerfile" && dockerfile.value.trim() && { containerFile: base64(dockerfile.value) };
  const content = recipe || (packages.value && { packages: packages.value });
  return content && {
    ...content,
    ...(platform.value !== "linux/amd64" && { containerPlatform: platform.value }),
    ...(format.value !== "docker" && { format: format.value }),
  };
});

/** Reads an address's query. @param {string} query */
export function read(query) {
  const q = new URLSearchParams(query);
  entries.value = q.getAll("p").filter(Boolean).slice(0, 200);
  channels.value = q.getAll("channel").filter(Boolean).slice(0, 20);
  const of = q.get("platform") ?? "";
  platform.value = ["linux/arm64", "linux/amd64,linux/arm64"].includes(of) ? of : "linux/amd64";
  format.value = q.get("format") === "sif" ? "sif" : "docker";
  const from = q.get("from") ?? "";
  kind.value = ["environment", "dockerfile"].includes(from) ? from : "packages";
}

/** The query that read understands. */
export const query = computed(() => {
  const q = new URLSearchParams();
  if (kind.value !== "packages") q.set("from", kind.value);
  for (const e of entries.value) q.append("p", e);
  for (const c of channels.value) q.append("channel", c);
  if (platform.value !== "linux/amd64") q.set("platform", platform.value);
  if (format.value !== "docker") q.set("format", format.value);
  return q.toString();
});
