// The catalogue of kept images. The search is in the page's address.
import { useEffect, useRef, useState } from "preact/hooks";
import { catalogPage, look, root } from "./api.js";
import { Art } from "./art.js";
import { Choice } from "./choice.js";
import { ago, count, html, moment, size } from "./html.js";
import { useLoad, Waiting } from "./load.js";
import { Organizations } from "./space.js";

/**
 * @typedef {{name: string, version: string, license?: string, kind?: string, requested?: boolean}} Package
 * @typedef {{id: string, name: string, tag: string, targetImage: string, containerPlatform?: string, format?: string, creationTime?: string, buildId?: string,
 *   digest?: string, earlierDigests?: string[], size?: number, pulls?: number, lastPull?: string, pullHistory?: {date: string, pulls: number}[], packages?: Package[],
 *   packageCount?: number, specs?: string[], channels?: string[], baseImage?: string, deletionTime?: string, deletionReason?: string}} Image
 * @typedef {{q: string, package: string, version: string, license: string, sort: string, workspaceId: string}} Wish workspaceId is "" for public images
 */

/** The number of pages that the view shows at most, the packages of an image in it, and the pause in typing, in ms, before a search. */
const mostPages = 25, mostPackages = 8, rest = 250;

/** @type {[value: string, title: string][]} */
const sorts = [["newest", "Newest"], ["pulls", "Most pulled"], ["name", "Name"]];

/** The search in the page's address. @returns {Wish} */
function read() {
  const q = new URLSearchParams(location.search);
  /** @param {string} name */
  const of = (name) => q.get(name) ?? "";
  return { q: of("q"), package: of("package"), version: of("package") && of("version"), license: of("license"), sort: sorts.find(([s]) => s === of("sort"))?.[0] ?? "newest", workspaceId: /^[1-9]\d{0,15}$/.exec(of("workspaceId"))?.[0] ?? "" };
}

/** The search as a query. @param {Wish} wish @param {string} [from] the token of a page */
function query({ sort, ...wish }, from = "") {
  const set = Object.entries({ ...wish, sort: sort === "newest" ? "" : sort, pageToken: from }).filter(([, v]) => v.trim());
  return new URLSearchParams(set).toString();
}

/** The number of pages that the current entry of the history shows. */
const pagesShown = () => Math.min(mostPages, Math.max(1, Number(history.state?.pages) || 1));

/** Loads the first pages of a search; those that were loaded before are cached. @param {Wish} wish @param {number} pages @param {AbortSignal} signal */
async function load(wish, pages, signal) {
  /** @type {Image[]} */
  const images = [];
  let next = "";
  for (let i = 0; i < pages && (next || !i); i++) {
    const page = await look(`v1alpha1/catalog?${query(wish, next)}`, signal);
    images.push(...(page.images ?? []));
    next = page.nextPageToken ?? "";
  }
  return { images, next, wish };
}

/** @param {{image: Image}} props */
function Row({ image: i }) {
  const all = i.packages ?? [];
  const shown = all.length > mostPackages ? all.slice(0, mostPackages - 1) : all;
  const notes = [i.containerPlatform?.split(",").join(" and "), i.size !== undefined && size(i.size), count(i.packageCount ?? all.length, "package"), i.pulls ? count(i.pulls, "pull") : "no pulls yet",
    i.creationTime && html`<span title=${moment(i.creationTime)}>kept ${ago(i.creationTime)}</span>`].filter(Boolean);
  return html`<li><div class="what"><a href=${catalogPage(i.id)}>${i.name}</a> <span class="digest">${i.tag}</span>${i.format === "sif" && html` <span class="tag">Singularity</span>`}${i.format === "environment" && html` <span class="tag">environment</span>`}
    ${shown.length > 0 && html`<ul class="packs" aria-label="Requested packages">${shown.map((p) => html`<li key=${`${p.name} ${p.version}`}>${p.name} <span class="digest">${p.version}</span></li>`)}
      ${all.length > shown.length && html`<li>and more</li>`}</ul>`}
    <p class="note">${notes.map((n, at) => html`${at > 0 && " · "}${n}`)}</p></div></li>`;
}

/** How to keep an image, where none is kept. */
function Empty() {
  return html`<section class="result" aria-labelledby="empty"><h2 id="empty">Nothing is kept here yet</h2>
    <p>A kept image has a name that does not expire, a page like those of this catalogue, and a citation. To keep one:</p>
    <ol><li><a href=${root.href}>Choose packages</a>, and get a container.</li><li>Press “Keep it” below its name.</li></ol>
    <p>Or run <code>slipway conda samtools --keep</code>. <a href=${new URL("docs/guide/keep", root).href}>More about kept images</a></p></section>`;
}

/**
 * @param {{id: string, title: string, value: string, off?: boolean, example: string, set: (value: string) => void}} props
 */
function Filter({ id, title, value, off, example, set }) {
  const [typed, type] = useState(value);
  useEffect(() => type(value), [value]);
  return html`<p><label for=${id}>${title}</label><input id=${id} type="text" maxlength="200" autocapitalize="none" autocomplete="off" spellcheck=${false} disabled=${!!off}
    placeholder=${`e.g. ${example}`} value=${typed} onInput=${(/** @type {any} */ e) => type(e.currentTarget.value)} onChange=${(/** @type {any} */ e) => set(e.currentTarget.value.trim())} /></p>`;
}

export function View() {
  const [wish, want] = useState(read);
  const [typed, type] = useState(wish.q);
  const [pages, turn] = useState(pagesShown);
  const later = useRef(0);
  /** Searches, and changes the address. @param {Partial<Wish>} change @param {boolean} [replaces] whether the search replaces the current entry of the history */
  const find = (change, replaces = false) => {
    clearTimeout(later.current);
    const next = { ...wish, q: typed.trim(), ...change };
    if (!next.package) next.version = "";
    if (query(next) === query(wish)) return;
    history[replaces ? "replaceState" : "pushState"](null, "", query(next) ? `?${query(next)}` : location.pathname);
    want(next);
    turn(1);
  };
  useEffect(() => {
    document.title = "Catalogue · Slipway";
    const back = () => {
      const now = read();
      clearTimeout(later.current);
      want(now);
      type(now.q);
      turn(pagesShown());
    };
    addEventListener("popstate", back);
    return () => removeEventListener("popstate", back);
  }, []);
  useEffect(() => {
    if (typed.trim() === wish.q) return undefined;
    later.current = setTimeout(() => find({}, !!wish.q), rest); // Back returns to the list before the first letter
    return () => clearTimeout(later.current);
  }, [typed]);
  const list = useLoad((signal) => load(wish, pages, signal), [query(wish), pages]);
  const images = list.value?.images ?? [], next = list.value?.next;
  const isFiltered = !!(wish.q || wish.package || wish.license);
  const isEmpty = list.value && !images.length && !list.problem;
  const set = !!(wish.package || wish.license);
  return html`<div class="hero"><div><h1>Catalogue</h1>
      <p class="lead">Images that were kept on this server, under names that do not expire.</p></div>
      <${Art} /></div>
    <${Organizations} title="Kept for" id=${Number(wish.workspaceId)} choose=${(/** @type {number} */ to) => find({ workspaceId: to ? String(to) : "" })} />
    <form class="look" role="search" onSubmit=${(/** @type {Event} */ e) => {
      e.preventDefault();
      find({});
    }}><label for="find">Find images by their packages</label><input id="find" type="search" maxlength="200" autocapitalize="none" autocomplete="off" spellcheck=${false} placeholder="e.g. samtools bwa"
        value=${typed} onInput=${(/** @type {any} */ e) => type(e.currentTarget.value)} />
      <details class="more" open=${set}><summary>Package, version and licence</summary><div class="settings">
        <${Filter} id="package" title="With the package, also as a dependency" example="htslib" value=${wish.package} set=${(/** @type {string} */ v) => find({ package: v })} />
        <${Filter} id="version" title="In the version" example="1.20" off=${!wish.package} value=${wish.version} set=${(/** @type {string} */ v) => find({ version: v })} />
        <${Filter} id="license" title="A requested package has the licence" example="MIT" value=${wish.license} set=${(/** @type {string} */ v) => find({ license: v })} /></div></details>
      <${Choice} title="Order" name="sort" value=${wish.sort} choose=${(/** @type {string} */ sort) => find({ sort })} options=${sorts} />
    </form>
    <${Waiting} of=${list} what="The catalogue" />
    <p class="unseen" role="status">${list.value && !list.problem ? `${count(images.length, "image")}${next ? ", and more" : ""}` : ""}</p>
    ${isEmpty && (isFiltered ? html`<p class="empty">No kept image matches. <a href=${root.href}>Make one</a>, or <a href=${new URL("c", root).href}>show all</a>.</p>` : html`<${Empty} />`)}
    ${!list.problem && images.length > 0 && html`<ul class="rows cards">${images.map((i) => html`<${Row} key=${i.id} image=${i} />`)}</ul>
      ${next && pages < mostPages && html`<p class="pager"><button type="button" class="small" onClick=${() => {
        history.replaceState({ pages: pages + 1 }, "");
        turn(pages + 1);
      }}>Show more</button></p>`}
      ${next && pages >= mostPages && html`<p class="note">There are more: search for a package.</p>`}`}`;
}
