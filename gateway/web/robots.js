// The robots of an organisation or a workspace, and their access tokens.
import { useState } from "preact/hooks";
import { call, words } from "./api.js";
import { Copied } from "./copy.js";
import { html, moment } from "./html.js";
import { Sure, useLoad, Waiting } from "./load.js";
import { repositoriesIn, Row, uses } from "./tokens.js";
import { Told } from "./told.js";

/** @typedef {{id: number, name: string, userName: string, role: string, description: string, createdBy: string, lastUsed: string | null}} Robot */
/** @typedef {import("./tokens.js").Token} Token */

/** @type {Record<string, string>} */
const roles = { launch: "reports runs and uses logins", connect: "no logins, reports no runs", view: "no logins, reports no runs" };

/** @type {[value: string, title: string][]} */
const rolesWithRights = Object.entries(roles).map(([role, rights]) => [role, `${role}: ${rights}`]);

/**
 * A text field and a select, and optionally a second text field, with a button.
 * @param {{id: string, label: string, hint: string, choice: string, choices: [value: string, title: string][], more?: {label: string, hint: string, attributes: Record<string, unknown>},
 *   act: (name: string, choice: string, more: string) => Promise<unknown>}} props
 */
function Make({ id, label, hint, choice, choices, more, act }) {
  const [name, type] = useState("");
  const [chosen, choose] = useState(choices[0][0]);
  const [further, add] = useState("");
  const [problem, say] = useState("");
  return html`<form class="fields row" onSubmit=${async (/** @type {Event} */ e) => {
    e.preventDefault();
    say("");
    try {
      await act(name.trim(), chosen, further);
      type("");
      add("");
    } catch (err) {
      say(words(err));
    }
  }}><p><label for=${id}>${label}</label><input id=${id} type="text" maxlength="50" autocomplete="off" autocapitalize="none" spellcheck=${false} placeholder=${hint} value=${name} required
      onInput=${(/** @type {any} */ e) => type(e.currentTarget.value)} /></p>
    <p><label for=${`${id}-choice`}>${choice}</label><select id=${`${id}-choice`} value=${chosen} onChange=${(/** @type {any} */ e) => choose(e.currentTarget.value)}>
      ${choices.map(([value, title]) => html`<option key=${value} value=${value}>${title}</option>`)}</select></p>
    ${more && html`<p><label for=${`${id}-more`}>${more.label}</label><input id=${`${id}-more`} type="text" autocomplete="off" ...${more.attributes} placeholder=${more.hint} value=${further}
      onInput=${(/** @type {any} */ e) => add(e.currentTarget.value)} /></p>`}
    <p><button class="button second" disabled=${!name.trim()}>Create</button></p>
    ${problem && html`<p class="note problem" role="alert"><${Told} text=${problem} /></p>`}</form>`;
}

/** @param {{robot: Robot, at: string, query: string}} props at is the path of the calls for the robot */
function Tokens({ robot, at, query }) {
  const list = useLoad((signal) => call("GET", `${at}/tokens${query}`, { signal }), [at]);
  const [made, show] = useState(/** @type {{name: string, secret: string} | undefined} */ (undefined));
  /** @type {Token[]} */
  const tokens = list.value?.tokens ?? [];
  return html`<${Waiting} of=${list} what="The tokens" />
    ${tokens.length > 0 && html`<ul class="rows">${tokens.map((t) => html`<${Row} key=${t.id} one=${t} name=${t.name} label="Revoke" path=${`${at}/tokens/${t.id}${query}`} again=${list.again} />`)}</ul>`}
    ${made && html`<section class="result" role="status"><h3>The token ${made.name}</h3><${Copied} large text=${made.secret} what="the token" />
      <p class="note">Copy it now: it is shown only once.</p></section>`}
    <${Make} id=${`token-${robot.id}`} label=${`New token of ${robot.name}`} hint="cluster" choice="May be used for"
      choices=${uses.slice(1).map(([scopes, title]) => [scopes.join(), title])} more=${{ label: "Only for repositories", hint: "all, or ghcr.io/lab/*", attributes: { autocapitalize: "none", spellcheck: false } }}
      act=${async (/** @type {string} */ name, /** @type {string} */ scopes, /** @type {string} */ repositories) => {
        const { accessKey } = await call("POST", `${at}/tokens${query}`, { body: { name, scopes: scopes.split(","), repositories: repositoriesIn(repositories) } });
        show({ name, secret: accessKey });
        list.again();
      }} />`;
}

/**
 * A form that sends only what the user has changed: another admin may have changed the rest
 * since the list was loaded.
 * @param {{robot: Robot, at: string, query: string, again: () => void}} props
 */
function Change({ robot, at, query, again }) {
  const [newRole, choose] = useState(/** @type {string | undefined} */ (undefined));
  const [newDescription, describe] = useState(/** @type {string | undefined} */ (undefined));
  const [problem, say] = useState("");
  const role = newRole ?? robot.role, description = newDescription ?? robot.description;
  /** @type {{role?: string, description?: string}} */
  const changed = {};
  if (role !== robot.role) changed.role = role;
  if (description.trim() !== robot.description) changed.description = description;
  return html`<form class="fields row change" onSubmit=${async (/** @type {Event} */ e) => {
    e.preventDefault();
    say("");
    try {
      await call("PUT", at + query, { body: changed });
      choose(undefined);
      describe(undefined);
      again();
    } catch (err) {
      say(words(err));
    }
  }}><p><label for=${`role-${robot.id}`}>Role</label><select id=${`role-${robot.id}`} value=${role} onChange=${(/** @type {any} */ e) => choose(e.currentTarget.value)}>
      ${rolesWithRights.map(([value, title]) => html`<option key=${value} value=${value}>${title}</option>`)}</select></p>
    <p><label for=${`about-${robot.id}`}>Description</label><input id=${`about-${robot.id}`} type="text" maxlength="1000" autocomplete="off" value=${description}
      onInput=${(/** @type {any} */ e) => describe(e.currentTarget.value)} /></p>
    <p><button class="button second" disabled=${Object.keys(changed).length === 0}>Save</button></p>
    <p class="note">The scopes of a token decide what else it may do, such as requesting images. Revoke the token to stop it.</p>
    ${problem && html`<p class="note problem" role="alert"><${Told} text=${problem} /></p>`}</form>`;
}

/** @param {{robot: Robot, at: string, query: string, again: () => void}} props */
function One({ robot, at, query, again }) {
  const [open, set] = useState(false);
  return html`<li><div class="what"><strong>${robot.name}</strong>
      <p class="note">${robot.role} · ${robot.description && `${robot.description} · `}created by ${robot.createdBy} · ${robot.lastUsed ? `last used ${moment(robot.lastUsed)}` : "never used"}</p></div>
    <${Sure} label="Delete" what=${robot.name} act=${async () => {
      await call("DELETE", at + query);
      again();
    }} />
    <details><summary>Change<span class="unseen"> ${robot.name}</span></summary><${Change} robot=${robot} at=${at} query=${query} again=${again} /></details>
    <details onToggle=${(/** @type {any} */ e) => set(e.currentTarget.open)}><summary class="tokens">Tokens<span class="unseen"> of ${robot.name}</span></summary>
      ${open && html`<${Tokens} robot=${robot} at=${at} query=${query} />`}</details></li>`;
}

/** @param {{org: number, workspace: number}} props workspace is 0 for the organisation itself */
export function Robots({ org, workspace }) {
  const at = `api/orgs/${org}/robots`, query = workspace ? `?workspaceId=${workspace}` : "";
  const list = useLoad((signal) => call("GET", at + query, { signal }), [at, query]);
  /** @type {Robot[]} */
  const robots = list.value?.robots ?? [];
  return html`<section id="robots"><h2>Robots</h2>
    <p class="note">Accounts without a person, for CI and clusters. They act with tokens only, ${workspace ? "in this workspace" : "in all workspaces of the organisation"}.</p>
    <${Waiting} of=${list} what="The robots" />
    ${robots.length > 0 && html`<ul class="rows">${robots.map((r) => html`<${One} key=${r.id} robot=${r} at=${`${at}/${r.id}`} query=${query} again=${list.again} />`)}</ul>`}
    <${Make} id="robot" label="New robot" hint="ci" choice="Role" choices=${rolesWithRights} more=${{ label: "Description", hint: "Pulls images for the cluster", attributes: { maxlength: 1000 } }}
      act=${async (/** @type {string} */ name, /** @type {string} */ role, /** @type {string} */ description) => {
        await call("POST", at + query, { body: { name, role, description } });
        list.again();
      }} /></section>`;
}
