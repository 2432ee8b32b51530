// The newest scan of an image, on the pages of its build and of its request.
import { useEffect, useState } from "preact/hooks";
import { call, Failure, isAborted, scanPage, words } from "./api.js";
import { Copied } from "./copy.js";
import { count, html } from "./html.js";
import { tokenOr } from "./names.js";
import { session } from "./session.js";
import { Told } from "./told.js";
import { tally } from "./vulnerabilities.js";

/**
 * @typedef {import("./vulnerabilities.js").Scan & {id: string, buildId?: string, mirrorId?: string, requestId: string, containerImage: string, platform?: string, digest?: string,
 *   startTime?: string, duration?: string, status: string, allowed?: boolean, reason?: string, scanMode?: string, scanLevels?: string[], gaps?: string[]}} Scan
 */

/** The pause after which a running scan is read again, in ms. */
const pause = 3000;

/** Loads a scan, and loads it again until it has ended. @param {string} at its path in the API @returns {{scan?: Scan, failure?: unknown}} */
export function useScan(at) {
  const [state, set] = useState(/** @type {{scan?: Scan, failure?: unknown}} */ ({}));
  useEffect(() => {
    const ended = new AbortController();
    /** @type {number | undefined} */
    let later;
    const ask = async () => {
      try {
        const scan = await call("GET", at, { signal: ended.signal });
        set({ scan });
        if (scan.status === "PENDING") later = setTimeout(ask, pause);
      } catch (failure) {
        if (isAborted(failure) || ended.signal.aborted) return;
        set(({ scan }) => ({ scan, failure }));
        if (failure instanceof Failure && (failure.status === 0 || failure.status === 429 || failure.status >= 500)) later = setTimeout(ask, 5 * pause);
      }
    };
    void ask();
    return () => {
      ended.abort();
      clearTimeout(later);
    };
  }, [at, session.value]);
  return state;
}

/** The state in a sentence. @param {Scan} s @returns {[text: string, look: string]} */
export function verdict(s) {
  const ruledOut = (s.vulnerabilities ?? []).filter((v) => v.status).length;
  if (s.status === "PENDING") return [s.digest ? "The image is being scanned." : "The scan waits for the image.", "running"];
  if (s.status !== "SUCCEEDED") return [`The image could not be scanned.${s.scanMode === "required" ? " The request does not tolerate this." : ""}`, "bad"];
  if (!s.allowed) return [`${s.reason}. The request does not tolerate this.`, "bad"];
  if (Object.keys(s.counts ?? {}).length) return ["Nothing was found that the request does not tolerate.", "good"];
  return [ruledOut ? `Nothing was found except ${count(ruledOut, "finding")} that ${ruledOut === 1 ? "is" : "are"} ruled out.` : `No known vulnerabilities were found${s.gaps?.length ? " in what was compared" : ""}.`, "good"];
}

/** The largest number of packages in a command. */
const patchable = 100;

/** The command that exchanges Conda packages of an image. @param {{scan: Scan, name?: string}} props name is the image name or the id of the caller's request, if it is known */
export function Patch({ scan, name }) {
  if (!scan.buildId) return null; // other images cannot be patched
  const fixed = (scan.vulnerabilities ?? []).filter((v) => v.fixedVersion && !v.status && v.purl?.startsWith("pkg:conda/") && /^[a-z0-9_][a-z0-9_.-]*$/.test(v.pkgName));
  const packages = [...new Set(fixed.map((v) => v.pkgName))];
  if (!packages.length) return null;
  const own = tokenOr(scan.requestId); // the id of a request of another user has no effect
  const known = name || (own === scan.requestId ? "" : own);
  const image = /^[\w./:@-]+$/.test(known) ? known : '"$IMAGE"';
  const more = packages.length > patchable ? ` These are the first ${patchable} of ${count(packages.length, "package")}.` : "";
  return html`<p class="note">Newer versions may be without these vulnerabilities. If the image was made of Conda packages, this command exchanges only ${packages.length === 1 ? "this package" : "these packages"}.${image.startsWith('"') ? " IMAGE is the name of the image." : ""}${more}</p>
    <${Copied} text=${`slipway patch ${image} ${packages.slice(0, patchable).join(" ")}`} what="the command" />`;
}

/** The newest scan, if there is one that the user may read. @param {{at: string, name?: string}} props at is its path in the API; name is as for Patch */
export function Scanned({ at, name }) {
  const { scan, failure } = useScan(at);
  if (!scan && (!failure || failure instanceof Failure && failure.status === 404)) return null; // most images are not scanned
  return html`<section class="scanned"><h2>Known vulnerabilities</h2>
    ${scan && html`<p role="status">${scan.status === "SUCCEEDED" ? `${tally(scan.counts)}.` : verdict(scan)[0]} <a href=${scanPage(scan.id)}>The scan</a></p>
    <${Patch} scan=${scan} name=${name} />`}
    ${failure && html`<p class="note problem" role="alert"><${Told} text=${words(failure)} /></p>`}</section>`;
}
