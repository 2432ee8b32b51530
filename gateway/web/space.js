// The workspace that a view shows. It is part of the address, which can be shared.
import { useState } from "preact/hooks";
import { call } from "./api.js";
import { html } from "./html.js";
import { useLoad } from "./load.js";
import { me } from "./me.js";

/**
 * @typedef {{orgId: number, orgName: string, workspaceId: number | null, workspaceName: string | null, visibility: string | null, roles: string[]}} Place an
 *   organisation, or one of its workspaces
 */

/** The caller's organisations and workspaces. @param {AbortSignal} [signal] @returns {Promise<Place[]>} */
export async function works(signal) {
  return (await call("GET", `api/user/${me.peek()?.id}/workspaces`, { signal })).orgsAndWorkspaces;
}

/** The query parameter for a workspace. @param {number} id 0 is the personal workspace @param {string} [lead] */
export function within(id, lead = "?") {
  return id ? `${lead}workspaceId=${id}` : "";
}

/** The workspace in the page's address. @returns {[id: number, choose: (id: number) => void]} 0 is the personal workspace */
export function useSpace() {
  const [id, set] = useState(() => Number(new URLSearchParams(location.search).get("workspace")) || 0);
  return [id, (to) => {
    history.replaceState(null, "", to ? `?workspace=${to}` : location.pathname);
    set(to);
  }];
}

/** @param {{id: number, choose: (id: number) => void}} props */
export function Spaces({ id, choose }) {
  const list = useLoad(works, []);
  const spaces = (list.value ?? []).filter((p) => p.workspaceId);
  if (!spaces.length && !id) return null;
  return html`<p class="space"><label for="space">Workspace</label>
    <select id="space" value=${id} onChange=${(/** @type {any} */ e) => choose(Number(e.currentTarget.value))}>
      <option value="0">Your own</option>
      ${id > 0 && !spaces.some((p) => p.workspaceId === id) && html`<option value=${id}>${list.value ? "A workspace without access" : "…"}</option>`}
      ${spaces.map((p) => html`<option key=${p.workspaceId} value=${p.workspaceId}>${p.orgName} / ${p.workspaceName}</option>`)}
    </select></p>`;
}

/**
 * A choice between everyone and the caller's organisations, each by one of its workspaces; nothing for callers without any.
 * @param {{title: string, id: number, choose: (id: number) => void}} props id is that of the workspace; 0 is everyone
 */
export function Organizations({ title, id, choose }) {
  const list = useLoad(async (signal) => (me.value ? works(signal) : []), [me.value?.id]);
  const all = (list.value ?? []).filter((p, i, list) => p.workspaceId && !list.slice(0, i).some((q) => q.workspaceId && q.orgId === p.orgId));
  const chosen = (list.value ?? []).find((p) => p.workspaceId === id);
  if (!all.length && !id) return null;
  return html`<p class="space"><label for="organization">${title}</label>
    <select id="organization" value=${chosen ? all.find((p) => p.orgId === chosen.orgId)?.workspaceId : id} onChange=${(/** @type {any} */ e) => choose(Number(e.currentTarget.value))}>
      <option value="0">Everyone</option>
      ${id > 0 && !chosen && html`<option value=${id}>${list.value ? "A workspace without access" : "…"}</option>`}
      ${all.map((p) => html`<option key=${p.orgId} value=${p.workspaceId}>${p.orgName}</option>`)}
    </select></p>`;
}
