// Organisations, their workspaces and their members.
import { useState } from "preact/hooks";
import { call, root, words } from "./api.js";
import { html } from "./html.js";
import { Sure, useLoad, Waiting } from "./load.js";
import { People } from "./people.js";
import { Robots } from "./robots.js";
import { works } from "./space.js";
import { Told } from "./told.js";
import { Usage } from "./usage.js";

/** @typedef {import("./space.js").Place} Place */

/**
 * A form with one field and a button.
 * @param {{id: string, title: string, label: string, act: (name: string) => Promise<unknown>}} props
 */
function Make({ id, title, label, act }) {
  const [name, type] = useState("");
  const [problem, say] = useState("");
  return html`<form class="fields row" onSubmit=${async (/** @type {Event} */ e) => {
    e.preventDefault();
    say("");
    try {
      await act(name.trim());
      type("");
    } catch (err) {
      say(words(err));
    }
  }}><p><label for=${id}>${title}</label><input id=${id} type="text" autocomplete="off" autocapitalize="none" spellcheck=${false} value=${name} required
      onInput=${(/** @type {any} */ e) => type(e.currentTarget.value)} /></p>
    <p><button class="button second" disabled=${!name.trim()}>${label}</button></p>
    ${problem && html`<p class="note problem" role="alert"><${Told} text=${problem} /></p>`}</form>`;
}

/** @param {string} query */
const link = (query) => `${new URL("view/workspaces", root).href}?${query}`;

/** @param {{org: Place, spaces: Place[], again: () => void}} props */
function Organisation({ org, spaces, again }) {
  const owner = org.roles.includes("owner");
  return html`<section><div class="head"><h2>${org.orgName}</h2><a href=${link(`org=${org.orgId}`)}>Members<span class="unseen"> of ${org.orgName}</span></a></div>
    ${spaces.length ? html`<ul class="rows">${spaces.map((w) => html`<li key=${w.workspaceId}><div class="what"><a href=${link(`org=${w.orgId}&workspace=${w.workspaceId}`)}>${w.workspaceName}</a>
      <p class="note">${w.visibility === "SHARED" ? "seen by all members" : "private"}${w.roles.length ? ` · you: ${w.roles.join(", ")}` : ""}</p></div>
      <span class="aside"><a href=${`${new URL("view/runs", root).href}?workspace=${w.workspaceId}`}>Runs<span class="unseen"> of ${w.workspaceName}</span></a>
        <a href=${`${new URL("view/logins", root).href}?workspace=${w.workspaceId}`}>Logins<span class="unseen"> of ${w.workspaceName}</span></a>
        <a href=${`${new URL("view/webhooks", root).href}?workspace=${w.workspaceId}`}>Webhooks<span class="unseen"> of ${w.workspaceName}</span></a></span></li>`)}</ul>`
      : html`<p class="empty">No workspace yet.</p>`}
    ${owner && html`<${Make} id=${`workspace-${org.orgId}`} title="New workspace" label="Create" act=${async (/** @type {string} */ name) => {
      await call("POST", `api/orgs/${org.orgId}/workspaces`, { body: { workspace: { name, fullName: name, visibility: "PRIVATE" } } });
      again();
    }} />`}</section>`;
}

/** @param {{all: Place[], org: number, workspace: number}} props */
function One({ all, org, workspace }) {
  const of = all.find((p) => p.orgId === org && (p.workspaceId ?? 0) === workspace);
  if (!of) return html`<h1>There is no such workspace</h1><p class="lead">Or you have no access to it. Its owners can add you.</p>`;
  const roles = all.filter((p) => p.orgId === org && (!p.workspaceId || p.workspaceId === workspace)).flatMap((p) => p.roles);
  const may = roles.some((r) => r === "owner" || (workspace && r === "admin"));
  return html`<p class="note back"><a href=${new URL("view/workspaces", root).href}>Workspaces</a></p>
    <h1>${workspace ? html`${of.orgName} / ${of.workspaceName}` : of.orgName}</h1>
    <${People} org=${org} workspace=${workspace} may=${may} />
    ${may && html`<${Robots} org=${org} workspace=${workspace} />
      <${Usage} query=${workspace ? `workspaceId=${workspace}` : `orgId=${org}`} by=${workspace ? ["user", "day"] : ["user", "workspace", "day"]} />`}
    ${roles.includes("owner") && html`<section><h2>Remove</h2><p class="note">${workspace ? "Possible once no runs and logins are in it." : "Possible once no workspaces are in it."}</p>
      <${Sure} label="Remove" what=${of.workspaceName ?? of.orgName} act=${async () => {
        await call("DELETE", `api/orgs/${org}${workspace ? `/workspaces/${workspace}` : ""}`);
        location.assign(new URL("view/workspaces", root));
      }} /></section>`}`;
}

export function View() {
  const list = useLoad(works, []);
  const q = new URLSearchParams(location.search);
  const all = list.value ?? [];
  if (q.has("org") && list.value) return html`<${One} all=${all} org=${Number(q.get("org"))} workspace=${Number(q.get("workspace"))} />`;
  const orgs = all.filter((p) => !p.workspaceId);
  return html`<h1>Workspaces</h1>
    <p class="lead">The participants of a workspace share its runs and logins. Each workspace belongs to an organisation.</p>
    <${Waiting} of=${list} what="Your workspaces" />
    ${list.value && !orgs.length && html`<p class="empty">You are in no organisation. Create one, or ask to be added to an existing one.</p>`}
    ${orgs.map((o) => html`<${Organisation} key=${o.orgId} org=${o} spaces=${all.filter((p) => p.orgId === o.orgId && p.workspaceId)} again=${list.again} />`)}
    ${list.value && html`<section><h2>New organisation</h2><${Make} id="organisation" title="Name" label="Create" act=${async (/** @type {string} */ name) => {
      await call("POST", "api/orgs", { body: { organization: { name, fullName: name } } });
      list.again();
    }} /></section>`}`;
}
