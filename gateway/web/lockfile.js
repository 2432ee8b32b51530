// Lock files of conda (explicit), conda-lock and pixi, which contain the URL of each package, and
// manifests of pixi.

const file = /(https?:\/\/[^\s"'#]+)\/(linux-64|linux-aarch64|noarch)\/([\w.+-]+)-([^-\s/"']+)-([^-\s/"']+)\.(?:conda|tar\.bz2)/i;
const heading = /^\s*(?:#\s*)?(?:platform:\s*)?((?:linux|osx|win|emscripten)-\w+):?\s*$/;
/** The category of a conda-lock.yml that every environment has. */
const main = "main";
const subdirs = new Map([["linux/amd64", "linux-64"], ["linux/arm64", "linux-aarch64"]]);

/** Reports whether a text is a pixi.toml or pyproject.toml, as the service does. @param {string} text */
const isManifest = (text) => /^[ \t]*\[(?:workspace|project|dependencies|feature|environments|tool\.pixi)(?:\.[^\]\n]*)?\][ \t]*(?:#.*)?\r?$/m.test(text);

/** Reports whether a text is a lock file. @param {string} text */
export function isLock(text) {
  return !isManifest(text) && (isExplicit(text) || /^\s*(?:- )?(?:conda|url):\s*https?:/m.test(text));
}

/** Reports whether a text is an explicit lock, which has one platform. @param {string} text */
export const isExplicit = (text) => /^@EXPLICIT/m.test(text);

/**
 * Divides a pixi.lock at the names of its environments: for each line, the environment that it
 * belongs to, undefined outside of environments.
 * @param {string[]} lines
 */
function* inEnvironments(lines) {
  let inside = false;
  let indent = "";
  /** @type {string | undefined} */
  let name;
  for (const line of lines) {
    if (/^\S/.test(line)) {
      inside = /^environments:\s*$/.test(line);
      indent = "";
      name = undefined;
    } else if (inside) {
      const key = /^(\s+)["']?([^\s"':#][^"':]*)["']?:\s*$/.exec(line);
      if (key && (!indent || key[1] === indent)) [, indent, name] = key;
    }
    yield /** @type {const} */ ([line, name]);
  }
}

/** The packages of a conda-lock.yml, each with its keys. @param {string} text */
function* inCondaLock(text) {
  /** @type {Record<string, string> | undefined} */
  let item;
  let inside = false;
  let dash = -1, indent = 0;
  for (const line of text.split("\n")) {
    if (/^[^\s#-]/.test(line)) inside = /^package:/.test(line);
    if (!inside) continue;
    const begins = /^(\s*)-\s+/.exec(line);
    if (begins && (dash < 0 || begins[1].length === dash)) {
      if (item) yield item;
      item = {};
      dash = begins[1].length;
      indent = begins[0].length;
    }
    const key = /^[\s-]*(\w+):\s*(?:"([^"]*)"|'([^']*)'|([^\s"'#]*))/.exec(line);
    if (item && key && line.search(/[^\s-]/) === indent) item[key[1]] ??= key[2] ?? key[3] ?? key[4];
  }
  if (item) yield item;
}

/**
 * Splits a dotted key of TOML.
 * @param {string} key
 * @returns {string[]}
 */
const partsOf = (key) => [...key.matchAll(/"([^"]*)"|'([^']*)'|([\w-]+)/g)].map((m) => m[1] ?? m[2] ?? m[3]);

/** A dotted key of TOML. */
const dotted = /(?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*/.source;
const header = new RegExp(`^\\s*\\[\\s*(${dotted})\\s*\\]\\s*(?:#.*)?$`);
const pair = new RegExp(`^\\s*(${dotted})\\s*=(.*)$`);

/**
 * Returns the names of the environments of a manifest of pixi, which always has "default".
 * @param {string} text
 */
function inManifest(text) {
  const names = new Set(["default"]);
  const within = /^[ \t]*\[tool\.pixi[.\]]/m.test(text) ? ["tool", "pixi", "environments"] : ["environments"];
  /** @type {string[]} */
  let table = [];
  for (const line of text.replace(/"""[^]*?"""|'''[^]*?'''/g, '""').split(/\r?\n/)) {
    const begins = header.exec(line);
    const has = begins ? undefined : pair.exec(line);
    if (begins) table = partsOf(begins[1]);
    else if (/^\s*\[\[/.test(line)) table = [""]; // an array of tables has no environments
    const path = [...table, ...(has ? partsOf(has[1]) : [])];
    if (within.some((part, i) => part !== path[i])) continue;
    if (path.length > within.length) names.add(path[within.length]);
    else if (has) { // the keys of an inline table, without its nested lists and tables
      const keys = has[2].replace(/^\s*\{/, "").replace(/\[[^\]]*\]|\{[^}]*\}/g, "");
      for (const m of keys.matchAll(new RegExp(`(${dotted})\\s*=`, "g"))) names.add(partsOf(m[1])[0]);
    }
  }
  return [...names];
}

/**
 * The environments of a file, of which a request names one.
 * @typedef {{title: string, names: string[], usual: string, label: (name: string) => string}} Environments
 *   usual is the one that requests need not name
 */

/**
 * Returns the environments of a pixi.lock or a manifest of pixi, or the categories of a
 * conda-lock.yml; none of other texts.
 * @param {string} text
 * @returns {Environments}
 */
export function environmentsOf(text) {
  const label = (/** @type {string} */ name) => name;
  if (isManifest(text)) return { title: "Environment of the manifest", names: inManifest(text), usual: "default", label };
  if (isLock(text) && /^package:/m.test(text)) {
    const categories = [...inCondaLock(text)].map((p) => p.category || main);
    return { title: "Categories of the lock", names: [...new Set([main, ...categories])], usual: main, label: (name) => (name === main ? main : `${main} and ${name}`) };
  }
  const names = isLock(text) ? [...inEnvironments(text.split("\n"))].map(([, name]) => name).filter((name) => name !== undefined) : [];
  return { title: "Environment of the lock", names: [...new Set(names)], usual: "default", label };
}

/**
 * Returns the packages that a lock lists for a platform. Each specification matches exactly one
 * package.
 * @param {string} text
 * @param {string} platform e.g. "linux/amd64"
 * @param {string} [environment] that of a pixi.lock, or the category of a conda-lock.yml besides main; absent: the
 *   lock has none
 * @returns {string[]}
 */
export function locked(text, platform, environment) {
  const wanted = subdirs.get(platform);
  /** @type {Set<string>} */
  const out = new Set();
  /** @param {string} line */
  const take = (line) => {
    const found = file.exec(line);
    if (found && (found[2] === wanted || found[2] === "noarch")) {
      out.add(`${found[1].replace(/^https:\/\/conda\.anaconda\.org\//, "")}::${found[3]}=${found[4]}=${found[5]}`);
    }
  };
  if (/^package:/m.test(text)) {
    for (const p of inCondaLock(text)) if (p.platform === wanted && [main, environment].includes(p.category || main)) take(p.url ?? "");
    return [...out];
  }
  let of = wanted;
  for (const [line, name] of inEnvironments(text.split("\n"))) {
    const begins = heading.exec(line);
    if (begins) of = begins[1];
    else if (/^packages:/.test(line)) of = ""; // pixi lists all packages a second time
    if (of === wanted && name === environment) take(line);
  }
  return [...out];
}
