// The history of the first view: tabs, packages and results are entries, which Back returns to. A result
// contains the name of an image, so that it is in the tab's own storage, and its entry has only an id.
import { batch, effect } from "@preact/signals";
import { dockerfile, entries, environment, isSecret, kind, order, query, read } from "./order.js";
import { result } from "./result.js";

const key = "slipway-results";
const most = 10, largest = 64 << 10;

/** @typedef {{id: string, given: import("./result.js").Given, body: any}} Stored */

/** @returns {Stored[]} */
function stored() {
  try {
    return JSON.parse(sessionStorage.getItem(key) ?? "[]");
  } catch { // nothing is stored, or storage is disabled
    return [];
  }
}

/**
 * Stores a result and returns its id; undefined if it is not stored, because the form could not be restored, or
 * because the request contains something secret.
 * @param {Omit<Stored, "id">} what
 */
function store(what) {
  if (isSecret.value || what.body.containerConfig || what.body.buildContext || JSON.stringify(what).length > largest) return undefined;
  const id = `${Date.now()}-${Math.random()}`; // unique, also after a sign-out has cleared the storage
  try {
    sessionStorage.setItem(key, JSON.stringify([...stored(), { id, ...what }].slice(-most)));
    return id;
  } catch {
    return undefined;
  }
}

/** @param {string} text base64 */
const decoded = (text) => new TextDecoder().decode(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)));

/** Restores the form and the result of the current entry. The result is only shown with its own request. */
function restore() {
  const known = stored().find((s) => s.id === history.state?.result);
  batch(() => {
    read(location.search);
    if (kind.value === "environment" && known?.body.packages?.environment) environment.value = decoded(known.body.packages.environment);
    if (kind.value === "dockerfile" && known?.body.containerFile) dockerfile.value = decoded(known.body.containerFile);
  });
  const isSame = known && JSON.stringify(order.value) === JSON.stringify(known.body);
  result.value = isSame ? { state: "given", given: known.given, body: known.body } : { state: "none" };
}

/** What an entry of the history consists of. */
function now() {
  const r = result.value;
  return { at: query.value ? `?${query.value}` : location.pathname, kind: kind.value, entries: entries.value.join(" "), given: r.state === "given" ? r.given : undefined };
}

/** Keeps the address and the history current. It returns how to stop. @param {() => void} fill fills the form of a new entry */
export function follow(fill) {
  restore();
  fill();
  let shown = now(), waits = false;
  history.replaceState(history.state, "", shown.at);
  // Several values change at once, e.g. the packages and, because of them, the result.
  const apply = () => {
    waits = false;
    const next = now(), r = result.peek();
    const isNew = next.kind !== shown.kind || next.entries !== shown.entries || next.given !== shown.given;
    if (!isNew && next.at === shown.at) return;
    shown = next;
    const state = r.state === "given" ? { result: store({ given: r.given, body: r.body }) } : null;
    if (isNew) history.pushState(state, "", next.at);
    else history.replaceState(state, "", next.at);
  };
  const stop = effect(() => {
    now();
    if (!waits) queueMicrotask(apply);
    waits = true;
  });
  const back = () => {
    restore();
    shown = now();
  };
  addEventListener("popstate", back);
  return () => {
    stop();
    removeEventListener("popstate", back);
  };
}
