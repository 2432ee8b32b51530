// The members of an organisation or the participants of a workspace, with their roles.
import { useState } from "preact/hooks";
import { call, words } from "./api.js";
import { html, moment } from "./html.js";
import { Pager, Sure, useLoad, Waiting } from "./load.js";
import { Told } from "./told.js";

const most = 50;

/** @typedef {{id: number, userName: string, email: string, role: string, expires: string | undefined}} Person expires is that of an invitation, which has no user */

/** The API paths and field names for members or participants. @param {number} org @param {number} workspace 0: the organisation itself */
function endpoint(org, workspace) {
  if (!workspace) return { at: `api/orgs/${org}/members`, roles: ["owner", "member"], add: (/** @type {string} */ user) => ({ user }), list: "members", id: "memberId", role: "role" };
  return {
    at: `api/orgs/${org}/workspaces/${workspace}/participants`, roles: ["owner", "admin", "maintain", "launch", "connect", "view"],
    add: (/** @type {string} */ userNameOrEmail) => ({ userNameOrEmail }), list: "participants", id: "participantId", role: "wspRole",
  };
}

/** @type {Record<string, string>} */
const rights = {
  owner: "everything", admin: "manages people", maintain: "manages logins", launch: "runs and uses logins", connect: "looks at runs", view: "looks at runs", member: "is in the organisation",
};

/** @param {{org: number, workspace: number, may: boolean}} props may is whether the user can manage members here */
export function People({ org, workspace, may }) {
  const to = endpoint(org, workspace);
  const [offset, go] = useState(0);
  const [name, type] = useState("");
  const [problem, say] = useState("");
  const list = useLoad((signal) => call("GET", `${to.at}?max=${most}&offset=${offset}`, { signal }), [offset, to.at]);
  /** @type {Person[]} */
  const people = (list.value?.[to.list] ?? []).map((/** @type {any} */ p) => ({ id: p[to.id], userName: p.userName, email: p.email, role: p[to.role], expires: p.invitation?.expires }));
  /** Runs an action, then reloads the list. @param {() => Promise<unknown>} act */
  const then = async (act) => {
    say("");
    try {
      await act();
    } catch (err) {
      say(words(err));
    }
    list.again();
  };
  return html`<section><h2>${workspace ? "Participants" : "Members"}</h2>
    <${Waiting} of=${list} what="The people here" />
    ${list.value && !people.length && html`<p class="empty">Only the owners of the organisation.</p>`}
    ${people.length > 0 && html`<ul class="rows">${people.map((p) => html`<li key=${p.id}><div class="what"><strong>${p.userName}</strong>
      <p class="note">${p.expires ? `invited until ${moment(p.expires)}, waits for the first sign-in` : p.email}</p></div>
      ${may ? html`<span class="aside"><select aria-label=${`Role of ${p.userName}`} value=${p.role}
          onChange=${(/** @type {any} */ e) => then(() => call("PUT", `${to.at}/${p.id}/role`, { body: { role: e.currentTarget.value } }))}>
          ${to.roles.map((r) => html`<option key=${r} value=${r}>${r}: ${rights[r]}</option>`)}</select>
        <${Sure} label=${p.expires ? "Revoke" : "Remove"} what=${p.expires ? `the invitation of ${p.email}` : p.userName} act=${async () => {
          await call("DELETE", `${to.at}/${p.id}`);
          list.again();
        }} /></span>` : html`<span class="tag">${p.role}</span>`}</li>`)}</ul>
      <${Pager} what="people" offset=${offset} most=${most} total=${list.value.totalSize ?? 0} go=${go} />`}
    ${problem && html`<p class="note problem" role="alert"><${Told} text=${problem} /></p>`}
    ${may && html`<form class="fields row" onSubmit=${(/** @type {Event} */ e) => {
      e.preventDefault();
      void then(async () => {
        await call("PUT", `${to.at}/add`, { body: to.add(name.trim()) });
        type("");
      });
    }}><p><label for="who">Add a user, or invite an address</label><input id="who" type="text" autocomplete="off" autocapitalize="none" spellcheck=${false} placeholder="User name or e-mail address"
        value=${name} onInput=${(/** @type {any} */ e) => type(e.currentTarget.value)} /></p>
      <p><button class="button second" disabled=${!name.trim()}>Add</button></p></form>`}</section>`;
}
