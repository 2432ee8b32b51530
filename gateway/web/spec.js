// Package specifications, as users write them and as requests contain them.

const simple = /^(?:([\w.-]+)::)?([\w.-]+)(?:(?:\s*=\s*|\s+)([\w.!+*-]+))?$/;

/**
 * Splits a specification. The version is "" for any version, and undefined if the specification
 * has more than a picker can show.
 * @param {string} entry
 * @returns {{channel: string, name: string, version: string | undefined}}
 */
export function parts(entry) {
  const m = simple.exec(entry);
  if (m) return { channel: m[1] ?? "", name: m[2], version: (m[3] ?? "").replace(/\.?\*$/, "") };
  const name = /^(?:([\w.-]+)::)?([\w.-]+)/.exec(entry);
  return { channel: name?.[1] ?? "", name: name?.[2] ?? entry, version: undefined };
}

/** @param {string} entry @param {string} version */
export function withVersion(entry, version) {
  const { channel, name } = parts(entry);
  return (channel && `${channel}::`) + name + (version && `=${version}`);
}

/** The short form of a specification: "samtools 1.20.*" becomes "samtools=1.20". @param {string} entry */
export function plain(entry) {
  const { version } = parts(entry);
  return version === undefined ? entry : withVersion(entry, version);
}

/**
 * Replaces the name of a package in an environment.yml, a pixi.toml or a pyproject.toml.
 * @param {string} text @param {string} name @param {string} other
 */
export function renamed(text, name, other) {
  const literal = name.replace(/[^\w]/g, "\\$&");
  const item = new RegExp(`^(\\s*-\\s+["']?(?:[\\w.-]+::)?)${literal}(?![\\w.-])`, "gim"); // - channel::NAME=1.2
  const key = new RegExp(`^(\\s*["']?)${literal}(?=["']?\\s*=)`, "gim"); // NAME = "1.2.*"
  return text.replace(item, (_, before) => before + other).replace(key, (_, before) => before + other);
}

/** Matches a word that is the version of the name before it: "1.19" and "9e", but not "7zip". */
const version = /^\d+[a-z]?(\.\w+)*(\.?\*)?$/;

/**
 * Parses typed or pasted text: one or several specifications, separated by blanks or commas,
 * "samtools 1.19", or the arguments of a conda command.
 * @param {string} text
 * @returns {{entries: string[], channels: string[]}}
 */
export function specs(text) {
  const whole = text.trim().replace(/^(?:\$\s*)?(?:conda|mamba|micromamba)\s+(?:install|create)\s+/, "");
  if (/[[|'"]/.test(whole)) return { entries: whole ? [whole] : [], channels: [] };
  const words = whole.replace(/([<>=!~]=?)\s+/g, "$1").split(/[\s,;]+/).filter(Boolean);
  /** @type {string[]} */
  const entries = [];
  /** @type {string[]} */
  const channels = [];
  for (let i = 0; i < words.length; i++) {
    const word = words[i];
    const last = entries.length - 1;
    if (/^(-c|--channel)$/.test(word)) channels.push(words[++i] ?? "");
    else if (/^(-n|-p|--name|--prefix)$/.test(word)) i++;
    else if (word.startsWith("-")) continue;
    else if (last >= 0 && /^[<>=!~]/.test(word)) entries[last] += (/[<>=!~]/.test(entries[last]) ? "," : "") + word;
    else if (last >= 0 && version.test(word) && parts(entries[last]).version === "") entries[last] += `=${word}`;
    else entries.push(word);
  }
  return { entries, channels: channels.filter(Boolean) };
}

/**
 * Reports whether a text contains a secret: the token of an image name, or a login or token in
 * a URL. Such texts are left out of the page's address, which can be shared.
 * @param {string} text
 */
export function secret(text) {
  return /\/wt\/|\/\/[^/]*@|\/t\/|[?&]/.test(text);
}
