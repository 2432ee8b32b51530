// The limits of single organisations, workspaces and users, for administrators.
import { useState } from "preact/hooks";
import { call, Failure, words } from "./api.js";
import { html, moment } from "./html.js";
import { Pager, Sure, useLoad, Waiting } from "./load.js";
import { works } from "./space.js";
import { Told } from "./told.js";

/** @typedef {{of: string, id: number, name: string, kind: string, value: string, lastUpdated: string}} Limit */

/** @type {Record<string, string>} */
const subjects = { organization: "an organisation", workspace: "a workspace", user: "a user" };

/** @type {Record<string, string>} */
const kinds = {
  builds: "builds", runningBuilds: "builds at a time", buildMinutes: "minutes of building", pulls: "pulls", requests: "container requests", searches: "package searches",
  requestDays: "days to store expired container requests",
};

/** The kinds of limits that a subject can have. @param {string} of */
const kindsOf = (of) => Object.entries(kinds).filter(([kind]) => of === "organization" || kind !== "requestDays");

/** @type {Record<string, string>} */
const examples = { runningBuilds: "4", buildMinutes: "600/24h", requestDays: "30" };

/** The number of limits on a page. */
const pageSize = 50;

/** A limit in words. @param {Limit} l */
const shown = (l) => l.value === "0" ? l.kind === "requestDays" ? `${kinds[l.kind]}: as in the settings` : `no limit of ${kinds[l.kind] ?? l.kind}` : `${kinds[l.kind] ?? l.kind}: ${l.value}`;

/** @type {(a: string, b: string) => boolean} */
const same = (a, b) => a.toLowerCase() === b.toLowerCase();

/**
 * Returns the id of an organisation or a workspace of the user, or of any user, by its name, or by
 * "#" and its id, since a name may consist of digits; undefined without a match.
 * @type {(of: string, name: string) => Promise<number | undefined>}
 */
async function idOf(of, name) {
  if (/^#[1-9]\d*$/.test(name)) return Number(name.slice(1));
  if (of === "user") {
    for (let offset = 0; ; offset += 100) {
      /** @type {{users: {id: number, userName: string, email: string}[], totalSize: number}} */
      const page = await call("GET", `api/admin/users?max=100&offset=${offset}&search=${encodeURIComponent(name)}`);
      const found = page.users.find((u) => same(u.userName, name) || same(u.email, name));
      if (found || !page.users.length || offset + page.users.length >= page.totalSize) return found?.id;
    }
  }
  const all = await works(new AbortController().signal);
  if (of === "organization") return all.find((p) => !p.workspaceId && same(p.orgName, name))?.orgId;
  return all.find((p) => p.workspaceId && same(`${p.orgName}/${p.workspaceName}`, name))?.workspaceId ?? undefined;
}

/** @param {{again: () => void}} props */
function NewLimit({ again }) {
  const [of, setOf] = useState("organization");
  const [name, setName] = useState("");
  const [kind, setKind] = useState("builds");
  const [value, setValue] = useState("");
  const [problem, setProblem] = useState("");
  const [done, setDone] = useState("");
  return html`<form class="fields row" onSubmit=${async (/** @type {Event} */ e) => {
    e.preventDefault();
    setProblem("");
    setDone("");
    try {
      const id = await idOf(of, name.trim());
      if (!id) {
        setProblem(of === "user" ? `There is no user ${name.trim()}; check the name`
          : `You are no member of ${subjects[of]} called ${name.trim()}; enter # and its id, which the audit trail shows`);
        return;
      }
      /** @type {Limit} */
      const limit = (await call("PUT", `api/admin/limits/${of}/${id}/${kind}`, { body: { value: value.trim() } })).limit;
      setDone(`${limit.name} has ${shown(limit)}`);
      setValue("");
      again();
    } catch (err) {
      setProblem(words(err));
    }
  }}>
    <p><label for="of">Limit of</label><select id="of" value=${of} onChange=${(/** @type {any} */ e) => {
      setOf(e.currentTarget.value);
      if (!kindsOf(e.currentTarget.value).some(([id]) => id === kind)) setKind("builds");
    }}>
      ${Object.entries(subjects).map(([id, title]) => html`<option key=${id} value=${id}>${title}</option>`)}</select></p>
    <p><label for="whose">Name, or # and id</label><input id="whose" type="text" maxlength="100" autocomplete="off" autocapitalize="none" spellcheck=${false} required
      placeholder=${of === "workspace" ? "lab/rnaseq" : of === "user" ? "ada" : "lab"} value=${name} onInput=${(/** @type {any} */ e) => setName(e.currentTarget.value)} /></p>
    <p><label for="kind">Of what</label><select id="kind" value=${kind} onChange=${(/** @type {any} */ e) => setKind(e.currentTarget.value)}>
      ${kindsOf(of).map(([id, title]) => html`<option key=${id} value=${id}>${title}</option>`)}</select></p>
    <p><label for="value">Limit</label><input id="value" type="text" maxlength="100" autocomplete="off" spellcheck=${false} required
      placeholder=${examples[kind] ?? "250/1h"} value=${value} onInput=${(/** @type {any} */ e) => setValue(e.currentTarget.value)} /></p>
    <p><button class="button" disabled=${!name.trim() || !value.trim()}>Set</button></p>
    ${problem && html`<p class="note problem" role="alert"><${Told} text=${problem} /></p>`}${done && html`<p class="note" role="status">${done}</p>`}</form>
    <p class="note">0 means no limit. A limit of a user replaces that of the settings; those of an organisation and a workspace apply in addition. Changes apply within seconds.
      Container requests are deleted within minutes after their days have ended, also those that were made before; the days can only be fewer than in the settings.</p>`;
}

/** Loads a page of limits; undefined for users who are no administrators. @param {string} query @param {AbortSignal} signal */
async function load(query, signal) {
  try {
    return await call("GET", `api/admin/limits?${query}`, { signal });
  } catch (err) {
    if (err instanceof Failure && err.status === 403) return { denied: true };
    throw err;
  }
}

export function View() {
  const [offset, setOffset] = useState(0);
  const [search, setSearch] = useState("");
  const list = useLoad((signal) => load(`max=${pageSize}&offset=${offset}&search=${encodeURIComponent(search)}`, signal), [offset, search]);
  if (list.value?.denied) return html`<h1>Limits</h1><p class="empty">Only administrators can see and set limits.</p>`;
  /** @type {Limit[]} */
  const limits = list.value?.limits ?? [];
  return html`<h1>Limits</h1>
    <p class="lead">Limits of single organisations, workspaces and users.</p>
    ${list.value && html`<${NewLimit} again=${list.again} />`}
    <section><h2>Limits that are set</h2>
      <form class="fields row" role="search" onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}><p><label for="search">Search</label><input id="search" type="search" maxlength="100" autocomplete="off" placeholder="part of a name" value=${search}
        onInput=${(/** @type {any} */ e) => {
          setOffset(0);
          setSearch(e.currentTarget.value);
        }} /></p></form>
      <${Waiting} of=${list} what="The limits" />
      ${list.value && !limits.length && html`<p class="empty">${search ? "No limit matches." : "None: the settings apply to all alike."}</p>`}
      ${limits.length > 0 && html`<ul class="rows">${limits.map((l) => html`<li key=${`${l.of}/${l.id}/${l.kind}`}><div class="what"><strong>${l.name}</strong> <span class="tag">${l.of === "organization" ? "organisation" : l.of}</span>
        <p class="note">${shown(l)} · set ${moment(l.lastUpdated)}</p></div>
        <${Sure} label="Delete" what=${`${shown(l)} of ${l.name}`} act=${async () => {
          await call("DELETE", `api/admin/limits/${l.of}/${l.id}/${l.kind}`);
          if (limits.length === 1 && offset) setOffset(offset - pageSize);
          else list.again();
        }} /></li>`)}</ul>`}
      <${Pager} offset=${offset} most=${pageSize} total=${list.value?.totalSize ?? 0} go=${setOffset} what="limits" /></section>`;
}
