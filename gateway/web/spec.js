// Specifications of packages, as people write them and as requests have them.

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

/** @param {string} entry @param {string} version */
export function withVersion(entry, version) {
  const { channel, name } = parts(entry);
  return (channel && `${channel}::`) + name + (version && `=${version}`);
}

/** A specification as people write it: "samtools 1.20.*" is "samtools=1.20". @param {string} entry */
export function plain(entry) {
  const { version } = parts(entry);
  return version === undefined ? entry : withVersion(entry, version);
}

/** A word that is a version behind a name: "1.19" and "9e", but not "7zip". */
const version = /^\d+[a-z]?(\.\w+)*(\.?\*)?$/;

/**
 * What people type or paste: one specification or several, with blanks or commas between
 * them, "samtools 1.19", or what they would have given to conda.
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
 * Whether a text holds what gives a right: a name that was given out, a login or a token
 * in an address. Such a text is not in the page's own address, which can be shared.
 * @param {string} text
 */
export function secret(text) {
  return /\/wt\/|\/\/[^/]*@|\/t\/|[?&]/.test(text);
}
