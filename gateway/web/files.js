// Files and folders that the user opens or drops.
import { useState } from "preact/hooks";
import { count, html, size } from "./html.js";
import { pack, Unfit } from "./pack.js";
import { Told } from "./told.js";

/** @typedef {import("./pack.js").Item} Item */

/** The largest number of files. */
const most = 5000;

/** Leaves out the files of version control systems. @param {Item[]} items */
const sent = (items) => items.filter((i) => !/(^|\/)\.(git|hg|svn)\//.test(i.path));

/** The opened files, with paths relative to the opened folder. @param {FileList} list */
export function opened(list) {
  return sent([...list].map((file) => ({ path: file.webkitRelativePath.split("/").slice(1).join("/") || file.name, file })));
}

/**
 * Returns the dropped files, including all files of dropped folders.
 * @param {DataTransfer} from
 * @returns {Promise<{items: Item[], folder: boolean}>}
 */
export async function dropped(from) {
  const roots = [...from.items].map((i) => i.webkitGetAsEntry()).filter((e) => e !== null);
  /** @type {Item[]} */
  const items = [];
  const alone = roots.length === 1 && roots[0].isDirectory; // then paths do not include the folder's name
  for (const r of roots) await collect(r, alone ? "" : r.name, items);
  return { items: sent(items), folder: roots.some((r) => r.isDirectory) };
}

/** @param {FileSystemEntry} entry @param {string} path @param {Item[]} into */
async function collect(entry, path, into) {
  if (into.length > most) throw new Unfit(`There are more than ${most.toLocaleString()} files. Use the command line to send more.`);
  if (entry.isFile) {
    into.push({ path, file: await new Promise((done, fail) => /** @type {FileSystemFileEntry} */ (entry).file(done, fail)) });
    return;
  }
  const reader = /** @type {FileSystemDirectoryEntry} */ (entry).createReader();
  for (;;) {
    /** @type {FileSystemEntry[]} */
    const some = await new Promise((done, fail) => reader.readEntries(done, fail));
    if (!some.length) return;
    for (const e of some) if (e.name !== ".git") await collect(e, path ? `${path}/${e.name}` : e.name, into);
  }
}

/**
 * An area where files can be dropped. It shows the files that were added and can remove them.
 * @param {{title: string, note: string, of: import("@preact/signals").Signal<import("./pack.js").Layer | undefined>, into?: string,
 *   folder?: boolean, taken?: (items: Item[]) => Promise<void>}} props folder accepts whole folders only; taken is called with the added files
 */
export function Files({ title, note, of, into = "", folder, taken }) {
  const [problem, say] = useState("");
  const [over, hover] = useState(false);
  /** @param {Promise<{items: Item[]}>} from */
  const take = async (from) => {
    say("");
    try {
      const { items } = await from;
      if (items.length > most) throw new Unfit(`There are more than ${most.toLocaleString()} files. Use the command line to send more.`);
      if (!items.length) return;
      of.value = await pack(items, into);
      await taken?.(items);
    } catch (err) {
      say(err instanceof Unfit ? err.message : "The files cannot be read.");
    }
  };
  /** @param {string} label @param {object} more */
  const open = (label, more) => html`<label class="open">${label}<input type="file" multiple class="unseen" ...${more}
    onChange=${(/** @type {any} */ e) => take(Promise.resolve({ items: opened(e.currentTarget.files) }))} /></label>`;
  return html`<div class=${over ? "drop over" : "drop"} role="group" aria-label=${title}
    onDragOver=${(/** @type {DragEvent} */ e) => {
      e.preventDefault();
      hover(true);
    }} onDragLeave=${() => hover(false)} onDrop=${(/** @type {DragEvent} */ e) => {
      e.preventDefault();
      hover(false);
      if (e.dataTransfer) void take(dropped(e.dataTransfer));
    }}>
    ${of.value
      ? html`<p>${count(of.value.count, "file")}, ${size(of.value.size)} <button type="button" class="text" onClick=${() => (of.value = undefined)}>Remove</button></p>`
      : html`<p>${note} ${open("Open a folder", { webkitdirectory: true })}${!folder && html` or ${open("files", {})}`}.</p>`}
    ${problem && html`<p class="note problem" role="alert"><${Told} text=${problem} /></p>`}
  </div>`;
}
