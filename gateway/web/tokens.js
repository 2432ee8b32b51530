// The access tokens of the signed-in user, and the programs with a session.
import { useState } from "preact/hooks";
import { call, words } from "./api.js";
import { Copied } from "./copy.js";
import { html, moment } from "./html.js";
import { Sure, useLoad, Waiting } from "./load.js";
import { leave } from "./me.js";
import { own } from "./session.js";
import { works } from "./space.js";
import { Told } from "./told.js";

const day = 24 * 60 * 60 * 1000;

/** @type {[days: number, title: string][]} */
const lives = [[30, "30 days"], [90, "90 days"], [365, "a year"], [0, "until it is revoked"]];

/** The scopes of a new token; none: everything. @type {[scopes: string[], title: string][]} */
export const uses = [
  [[], "everything you can do"],
  [["pull", "request"], "requests without builds"],
  [["pull", "request", "build"], "requests and builds"],
  [["pull", "request", "build", "freeze", "runs"], "images and runs"],
  [["runs"], "runs"],
];

/** @typedef {{id: number, name: string, lastUsed: string | null, dateCreated: string, expires: string | null, scopes: string[], workspaceId: number | null, repositories: string[], lastAddress: string | null}} Token */
/** @typedef {{id: number, clientId: string, lastUsed: string | null, dateCreated: string, expires: string | null}} Session */

/** The repositories in a text, separated by commas or spaces. @param {string} text */
export const repositoriesIn = (text) => text.split(/[\s,]+/).filter(Boolean);

/** @param {{made: (name: string, secret: string) => void}} props */
function Create({ made }) {
  const [name, type] = useState("");
  const [days, choose] = useState(90);
  const [use, allow] = useState(0);
  const [workspace, limit] = useState(0);
  const [repositories, only] = useState("");
  const spaces = (useLoad(works, []).value ?? []).filter((p) => p.workspaceId);
  const [problem, say] = useState("");
  /** @param {Event} e */
  const create = async (e) => {
    e.preventDefault();
    say("");
    try {
      const expires = days ? new Date(Date.now() + days * day).toISOString() : "never";
      const { accessKey } = await call("POST", "api/tokens", { body: { name: name.trim(), expires, scopes: uses[use][0], workspaceId: workspace, repositories: repositoriesIn(repositories) } });
      made(name.trim(), accessKey);
      type("");
    } catch (err) {
      say(words(err));
    }
  };
  return html`<form class="fields row" onSubmit=${create}>
    <p><label for="name">Name</label><input id="name" type="text" maxlength="50" autocomplete="off" placeholder="laptop" value=${name} required
      onInput=${(/** @type {any} */ e) => type(e.currentTarget.value)} /></p>
    <p><label for="life">Works for</label><select id="life" value=${days} onChange=${(/** @type {any} */ e) => choose(Number(e.currentTarget.value))}>
      ${lives.map(([d, title]) => html`<option key=${d} value=${d}>${title}</option>`)}</select></p>
    <p><label for="use">May be used for</label><select id="use" value=${use} onChange=${(/** @type {any} */ e) => allow(Number(e.currentTarget.value))}>
      ${uses.map(([, title], i) => html`<option key=${i} value=${i}>${title}</option>`)}</select></p>
    ${spaces.length > 0 && html`<p><label for="within">Works in</label><select id="within" value=${workspace} onChange=${(/** @type {any} */ e) => limit(Number(e.currentTarget.value))}>
      <option value="0">all workspaces</option>
      ${spaces.map((p) => html`<option key=${p.workspaceId} value=${p.workspaceId}>${p.orgName} / ${p.workspaceName}</option>`)}</select></p>`}
    <p><label for="repositories">Only for repositories</label><input id="repositories" type="text" autocomplete="off" autocapitalize="none" spellcheck=${false} placeholder="all, or ghcr.io/lab/*" value=${repositories}
      onInput=${(/** @type {any} */ e) => only(e.currentTarget.value)} /></p>
    <p><button class="button" disabled=${!name.trim()}>Create</button></p>
    ${problem && html`<p class="note problem" role="alert"><${Told} text=${problem} /></p>`}</form>`;
}

/** @param {{one: Token | Session, name: string, here?: boolean, label: string, path?: string, again: () => void}} props path is that of the token */
export function Row({ one, name, here, label, path = `api/tokens/${one.id}`, again }) {
  const from = "lastAddress" in one && one.lastAddress ? ` from ${one.lastAddress}` : "";
  const used = one.lastUsed ? `last used ${moment(one.lastUsed)}${from}` : "never used";
  const only = "scopes" in one && (one.scopes.length > 0 || one.workspaceId || one.repositories?.length > 0) &&
    `only ${[one.scopes.join(", "), one.workspaceId && `in the workspace ${one.workspaceId}`, one.repositories?.length > 0 && `for ${one.repositories.join(", ")}`].filter(Boolean).join(" ")} · `;
  return html`<li><div class="what"><strong>${name}</strong>${here && html` <span class="tag">this page</span>`}
      <p class="note">${only}${used} · ${one.expires ? `until ${moment(one.expires)}` : "until it is revoked"}</p></div>
    <${Sure} label=${label} what=${name} act=${async () => {
      await call("DELETE", path);
      if (here) await leave();
      else again();
    }} /></li>`;
}

export function View() {
  const [made, show] = useState(/** @type {{name: string, secret: string} | undefined} */ (undefined));
  const list = useLoad((signal) => call("GET", "api/tokens", { signal }), []);
  /** @type {{tokens: Token[], sessions: Session[]}} */
  const { tokens, sessions } = list.value ?? { tokens: [], sessions: [] };
  const id = own();
  return html`<h1>Access tokens</h1>
    <p class="lead">A token lets a program act as you: Nextflow, the command line, or a script.</p>
    <${Create} made=${(/** @type {string} */ name, /** @type {string} */ secret) => {
      show({ name, secret });
      list.again();
    }} />
    ${made && html`<section class="result" role="status"><h2>The token ${made.name}</h2><${Copied} large text=${made.secret} what="the token" />
      <p class="note">Copy it now: it is shown only once.</p></section>`}
    <section><h2>Your tokens</h2><${Waiting} of=${list} what="Your tokens" />
      ${tokens.length > 0 && html`<ul class="rows">${tokens.map((t) => html`<${Row} key=${t.id} one=${t} name=${t.name} here=${t.id === id} label="Revoke" again=${list.again} />`)}</ul>`}
      ${list.value && !tokens.length && html`<p class="empty">You have none.</p>`}</section>
    ${sessions.length > 0 && html`<section><h2>Programs that are signed in</h2>
      <ul class="rows">${sessions.map((s) => html`<${Row} key=${s.id} one=${s} name=${s.clientId} label="End" again=${list.again} />`)}</ul></section>`}`;
}
