// The files that a layer adds and removes. To list them, the service reads the whole layer,
// which counts as a pull. Therefore the view requests them only when the user opens a layer.
import { useEffect, useRef, useState } from "preact/hooks";
import { call, isAborted, words } from "./api.js";
import { count, html, size } from "./html.js";
import { Told } from "./told.js";

/**
 * @typedef {{path: string, type: string, size?: number, mode?: string, linkTarget?: string}} File
 * @typedef {{entries?: number, unpacked?: number, matching?: number, files?: File[], nextPageToken?: string}} Listing
 * @typedef {{filter: string, sort: "path" | "size"}} Wish
 */

/** The number of files per page, and the pause in typing, in ms, before a search starts. */
const most = 1000, rest = 400;

/** The label of each file type; regular files have none. */
const kinds = /** @type {Record<string, string>} */ ({
  file: "", directory: "folder", symlink: "link", hardlink: "hard link", character: "device", block: "device", fifo: "pipe", removed: "removed", emptied: "emptied",
});

/** Filters and sorts a complete listing in the browser instead of calling the service. @param {File[]} files @param {Wish} wish */
function pick(files, { filter, sort }) {
  const fitting = files.filter((f) => f.path.toLowerCase().includes(filter.toLowerCase()));
  return sort === "size" ? fitting.sort((a, b) => (b.size ?? 0) - (a.size ?? 0)) : fitting;
}

/** @param {{file: File}} props */
function Row({ file }) {
  const kind = kinds[file.type] ?? file.type;
  const gone = file.type === "removed" || file.type === "emptied";
  return html`<tr><td class=${gone ? "path gone" : "path"}>${file.path}${file.linkTarget && html`<span class="to"> → ${file.linkTarget}</span>`}</td>
    <td>${kind}</td><td>${file.mode}</td><td class="number">${file.size === undefined ? "" : size(file.size)}</td></tr>`;
}

/** @param {{files: File[], name: string}} props */
function Table({ files, name }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${`Files of ${name}`}><table class="contents">
    <thead><tr><th scope="col">Path</th><th scope="col">Kind</th><th scope="col">Mode</th><th scope="col" class="number">Size</th></tr></thead>
    <tbody>${files.map((f, i) => html`<${Row} key=${i} file=${f} />`)}</tbody></table></div>`;
}

/** A summary of the listing. @param {{all: Listing, shown: number, matching: number, filtered: boolean}} props */
function Sum({ all, shown, matching, filtered }) {
  if (!all.entries) return "It adds and removes nothing.";
  if (filtered && !matching) return `None of ${count(all.entries, "path")} contains this text.`;
  const whole = `${count(all.entries, "path").replace(/^1 paths/, "1 path")}, ${size(all.unpacked ?? 0)} unpacked`;
  const some = filtered ? `${matching.toLocaleString()} of ${whole}` : whole;
  return shown < matching ? `${some}; the first ${shown.toLocaleString()} are shown` : some;
}

/**
 * @param {{image: string, platform: string, layer: string, name: string}} props name
 *   describes the layer to screen readers
 */
export function View({ image, platform, layer, name }) {
  const [wish, want] = useState(/** @type {Wish} */ ({ filter: "", sort: "path" }));
  const [all, keep] = useState(/** @type {Listing | undefined} */ (undefined)); // the first response, without a filter
  const [found, tell] = useState(/** @type {Listing | undefined} */ (undefined)); // the latest response
  const [problem, say] = useState("");
  const [busy, wait] = useState(true);
  const [round, again] = useState(0);
  const now = useRef(wish); // to detect responses to an outdated query
  now.current = wish;

  /** @param {Wish} w @param {string} from @param {AbortSignal} [signal] @returns {Promise<Listing>} */
  const ask = (w, from, signal) => {
    const q = new URLSearchParams({ layer, max: String(most), sort: w.sort, ...(w.filter && { filter: w.filter }), ...(platform && { platform }), ...(from && { pageToken: from }) });
    return call("POST", `v1alpha1/inspect/files?${q}`, { body: { containerImage: image }, signal });
  };
  const isWhole = all && !all.nextPageToken;
  useEffect(() => {
    if (isWhole) return undefined;
    const ended = new AbortController();
    wait(true);
    const asking = setTimeout(() => ask(wish, "", ended.signal).then((l) => {
      if (!all) keep(l);
      tell(l);
      say("");
    }, (err) => isAborted(err) || say(words(err))).then(() => ended.signal.aborted || wait(false)), all ? rest : 0);
    return () => {
      clearTimeout(asking);
      ended.abort();
    };
  }, [wish, round]);
  const more = async () => {
    wait(true);
    try {
      const next = await ask(wish, found?.nextPageToken ?? "");
      if (now.current !== wish) return;
      tell({ ...next, files: [...(found?.files ?? []), ...(next.files ?? [])] });
    } catch (err) {
      if (now.current !== wish) return;
      say(words(err));
    }
    wait(false);
  };

  if (!all) {
    if (!problem) return html`<p class="note" role="status">Reading the layer…</p>`;
    return html`<div class="failed" role="alert"><h3>Its files cannot be listed</h3><p class="why"><${Told} text=${problem} /></p>
      <p><button type="button" class="small" onClick=${() => { say(""); again(round + 1); }}>Try again</button></p></div>`;
  }
  const files = isWhole ? pick(all.files ?? [], wish) : found?.files ?? [];
  const matching = isWhole ? files.length : found?.matching ?? all.entries ?? 0;
  return html`<div class="bar">
      <input class="find" type="search" aria-label=${`Find in the paths of ${name}`} placeholder="Find in paths" value=${wish.filter} maxlength="80"
        onInput=${(/** @type {any} */ e) => want({ ...wish, filter: e.currentTarget.value })} />
      ${/** @type {const} */ ([["path", "By path"], ["size", "Largest first"]]).map(([sort, title]) => html`<button type="button" key=${sort} class="pill"
        aria-pressed=${wish.sort === sort} onClick=${() => want({ ...wish, sort })}>${title}</button>`)}
    </div>
    <p class="note" role="status">${busy && !isWhole ? "Reading the layer…" : html`<${Sum} all=${all} shown=${files.length} matching=${matching} filtered=${!!wish.filter} />`}</p>
    ${problem && html`<p class="note problem" role="alert"><${Told} text=${problem} /></p>`}
    ${files.length > 0 && html`<${Table} files=${files} name=${name} />`}
    ${!isWhole && found?.nextPageToken && html`<p><button type="button" class="pill" disabled=${busy} onClick=${more}>Show more</button></p>`}`;
}
