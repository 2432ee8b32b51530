// Lock files of conda (explicit), conda-lock and pixi. All of them contain the URL of each
// package.

const file = /(https?:\/\/[^\s"'#]+)\/(linux-64|linux-aarch64|noarch)\/([\w.+-]+)-([^-\s/"']+)-([^-\s/"']+)\.(?:conda|tar\.bz2)/i;
const heading = /^\s*(?:#\s*)?(?:platform:\s*)?((?:linux|osx|win|emscripten)-\w+):?\s*$/;
const subdirs = new Map([["linux/amd64", "linux-64"], ["linux/arm64", "linux-aarch64"]]);

/** Reports whether a text is a lock file. @param {string} text */
export function isLock(text) {
  return isExplicit(text) || /^\s*(?:- )?(?:conda|url):\s*https?:/m.test(text);
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

/**
 * Returns the names of the environments of a pixi.lock; none of other texts.
 * @param {string} text
 * @returns {string[]}
 */
export function environmentsOf(text) {
  if (!isLock(text)) return [];
  const names = [...inEnvironments(text.split("\n"))].map(([, name]) => name).filter((name) => name !== undefined);
  return [...new Set(names)];
}

/**
 * Returns the packages that a lock lists for a platform. Each specification matches exactly one
 * package.
 * @param {string} text
 * @param {string} platform e.g. "linux/amd64"
 * @param {string} [environment] that of a pixi.lock; absent: the lock has none
 * @returns {string[]}
 */
export function locked(text, platform, environment) {
  const wanted = subdirs.get(platform);
  /** @type {Set<string>} */
  const out = new Set();
  let of = wanted;
  for (const [line, name] of inEnvironments(text.split("\n"))) {
    const begins = heading.exec(line);
    if (begins) of = begins[1];
    else if (/^packages:/.test(line)) of = ""; // pixi lists all packages a second time
    const found = of === wanted && name === environment && file.exec(line);
    if (found && (found[2] === wanted || found[2] === "noarch")) {
      out.add(`${found[1].replace(/^https:\/\/conda\.anaconda\.org\//, "")}::${found[3]}=${found[4]}=${found[5]}`);
    }
  }
  return [...out];
}
