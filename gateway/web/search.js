// The package search field. It also accepts specifications as typed.
import { batch, computed, effect, signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Failure, isAborted, look, words } from "./api.js";
import { early } from "./early.js";
import { html } from "./html.js";
import { add, channels, entries, platform, remove, searched } from "./order.js";
import { specs } from "./spec.js";

/** @typedef {{name: string, version: string, channel: string, license?: string, summary?: string}} Found */

const typed = signal(early.text);
const found = signal(/** @type {Found[] | undefined} */ (undefined));
const problem = signal("");
const active = signal(-1);
const open = signal(early.focused);
/** The typed text without a licence at its end, and the licence. */
const parts = computed(() => /^(.*?)(?:(?:^|\s)license:\s*(\S*)\s*)?$/.exec(typed.value) ?? ["", typed.value]);
const sought = computed(() => parts.value[1].trim());
const license = computed(() => /** @type {string | undefined} */ (parts.value[2]));
/** A search for the packages with a command or a file, as typed. */
const inside = computed(() => /^(command|file):\s*(\S*)$/.exec(sought.value));
/** The package name within the typed text. */
const name = computed(() => inside.value ? inside.value[2] : /^(?:[\w.-]+::)?([\w.-]*)/.exec(sought.value)?.[1] ?? "");

/** Reports whether the text is the name of a package, a command or a file, and no specification. */
const isName = computed(() => !!name.value && (!!inside.value || /^[\w.-]+$/.test(sought.value)));

/** Searches again when the text or the channels have changed. */
function searching() {
  const q = name.value;
  const by = inside.value?.[1] ?? "q";
  const where = channels.value.length ? searched.value.map((c) => `&channel=${encodeURIComponent(c)}`) : [""];
  const only = (platform.value.includes(",") ? "" : `&platform=${encodeURIComponent(platform.value)}`) +
    (license.value ? `&license=${encodeURIComponent(license.value)}` : "");
  found.value = undefined;
  problem.value = "";
  active.value = -1;
  if (!q) return undefined;
  if (!where.length) {
    problem.value = "Channels with a login are not searched. Press Enter to add the text as typed.";
    return undefined;
  }
  const ended = new AbortController();
  const wait = setTimeout(async () => {
    try {
      const path = `v1alpha1/conda/packages?${by}=${encodeURIComponent(q)}&max=8${only}`;
      const answers = await Promise.allSettled(where.map((c) => look(path + c, ended.signal)));
      const failed = answers.filter((a) => a.status === "rejected");
      // Commands and files are not known of all channels.
      if (failed.length && (by === "q" || failed.length === answers.length)) throw failed[0].reason;
      const all = distinct(answers.flatMap((a) => (a.status === "fulfilled" && a.value.packages) || []));
      batch(() => {
        found.value = all;
        active.value = isName.value ? Math.max(all.findIndex((f) => f.name === q.toLowerCase()), all.length ? 0 : -1) : -1;
      });
    } catch (err) {
      if (isAborted(err)) return;
      const unknown = err instanceof Failure && err.status === 404 && !channels.value.length;
      problem.value = unknown ? "This service cannot search packages. Press Enter to add the text as typed." : words(err);
    }
  }, 200);
  return () => {
    clearTimeout(wait);
    ended.abort();
  };
}

/** The first result for each name, since the first channel has priority. @param {Found[]} all */
function distinct(all) {
  return all.filter((f, i) => all.findIndex((g) => g.name === f.name) === i).slice(0, 8);
}

/** @param {string} entry */
function take(entry) {
  add(entry);
  typed.value = "";
  open.value = false;
}

/** Adds the typed or pasted specifications. */
function takeTyped() {
  const said = specs(typed.value);
  batch(() => {
    said.entries.forEach(take);
    if (said.channels.length) channels.value = said.channels;
  });
}

/** @param {KeyboardEvent & {currentTarget: HTMLInputElement}} event */
function key(event) {
  const list = found.value ?? [];
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && list.length) {
    open.value = true;
    const places = list.length + 1; // including the field itself
    active.value = ((active.value + 1 + step + places) % places) - 1;
  } else if (event.key === "Enter") {
    const chosen = list[active.value];
    if (chosen) take(chosen.name);
    else if (!inside.value && license.value === undefined) takeTyped();
  } else if (event.key === "Escape") {
    if (open.value) open.value = false;
    else typed.value = "";
  } else if (event.key === "Backspace" && !typed.value && entries.value.length) {
    remove(entries.value[entries.value.length - 1]);
  } else return;
  event.preventDefault();
}

/** The status of the search for screen readers. */
const told = computed(() => {
  if (problem.value) return problem.value;
  if (!name.value && inside.value) return `Type the name of the ${inside.value[1]}.`;
  if (!name.value) return license.value === undefined ? "" : "Type a part of the name before the licence.";
  if (!found.value) return "Looking…";
  if (license.value && !found.value.length) return `No package that matches ${name.value} has the licence ${license.value}.`;
  if (inside.value && !found.value.length) return `No package that was used on this server has the ${inside.value[1]} ${name.value}.`;
  return found.value.length ? `${found.value.length} found. ${isName.value ? "Enter takes the marked one" : "Use the arrow keys to choose"}.` : `No package name matches ${name.value}.`;
});

/** @param {{title: string}} props */
export function Search({ title }) {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => effect(searching), []);
  useLayoutEffect(() => {
    if (!early.focused) return;
    early.focused = false;
    field.current?.focus();
    field.current?.setSelectionRange(typed.value.length, typed.value.length);
  }, []);
  const shown = open.value && !!found.value?.length;
  return html`<div class="search">
    <label for="search">${title}</label>
    <div class="field">
      <input id="search" ref=${field} type="text" role="combobox" autocomplete="off" autocapitalize="none" spellcheck=${false}
        placeholder=${entries.value.length ? "Add another" : "e.g. samtools, numpy=2, command:bcftools"}
        aria-autocomplete="list" aria-expanded=${shown} aria-controls="found" aria-describedby="search-told"
        aria-activedescendant=${shown && active.value >= 0 ? `found-${active.value}` : undefined}
        value=${typed.value} onKeyDown=${key} onBlur=${() => (open.value = false)} onFocus=${() => (open.value = true)}
        onInput=${(/** @type {any} */ e) => {
          typed.value = e.currentTarget.value;
          open.value = true;
        }} />
      <ul id="found" role="listbox" aria-label="Packages that were found" hidden=${!shown}>
        ${(found.value ?? []).map((f, i) => html`<li id=${`found-${i}`} key=${f.name} role="option" aria-selected=${i === active.value}
          onMouseDown=${(/** @type {Event} */ e) => {
            e.preventDefault(); // keeps the focus in the field
            take(f.name);
          }}><span class="name">${f.name}</span> <span class="version">${f.version}</span> <span class="channel">${f.channel}</span>
          ${license.value && html`<span class="license">${f.license}</span>`}
          ${f.summary && html`<span class="summary">${f.summary}</span>`}</li>`)}
      </ul>
    </div>
    <p id="search-told" class=${problem.value ? "note problem" : "note"} role="status">${told.value}</p>
  </div>`;
}
