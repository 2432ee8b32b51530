// A report of usage: builds, their time, and pulls.
import { useState } from "preact/hooks";
import { call } from "./api.js";
import { html } from "./html.js";
import { useLoad, Waiting } from "./load.js";

/**
 * @typedef {{day?: string, userId?: number, userName?: string, workspaceId?: number, workspaceName?: string, orgId?: number, orgName?: string, builds: number, buildSeconds: number, pulls: number}} Row
 */

/** What rows can be about. @type {Record<string, [title: string, name: (r: Row) => string]>} */
const columns = {
  organization: ["Organisation", (r) => r.orgName ?? String(r.orgId ?? "None")],
  workspace: ["Workspace", (r) => (r.workspaceName ? `${r.orgName} / ${r.workspaceName}` : String(r.workspaceId ?? "Personal"))],
  user: ["User", (r) => r.userName ?? String(r.userId ?? "Anonymous, or of another platform")],
  day: ["Day (UTC)", (r) => r.day ?? ""],
};

/** The maximum number of rows that are shown. */
const most = 200;

/** @param {{column: string, query: string}} props */
function Rows({ column, query }) {
  const got = useLoad((signal) => call("GET", `api/admin/usage?by=${column}${query && `&${query}`}`, { signal }), []);
  if (!got.value) return html`<${Waiting} of=${got} what="Usage" />`;
  const [title, name] = columns[column];
  /** @type {Row[]} */
  const rows = got.value.rows;
  if (!rows.length) return html`<p class="empty">Nothing was built or pulled in the last 30 days.</p>`;
  const sorted = column === "day" ? rows : [...rows].sort((a, b) => b.pulls - a.pulls || b.builds - a.builds);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Usage"><table>
      <thead><tr><th scope="col">${title}</th><th scope="col" class="number">Builds</th><th scope="col" class="number">Minutes of builds</th><th scope="col" class="number">Pulls</th></tr></thead>
      <tbody>${sorted.slice(0, most).map((r, i) => html`<tr key=${i}><td>${name(r)}</td><td class="number">${r.builds.toLocaleString()}</td>
        <td class="number">${Math.ceil(r.buildSeconds / 60).toLocaleString()}</td><td class="number">${r.pulls.toLocaleString()}</td></tr>`)}</tbody></table></div>
    <p class="note">${rows.length > most && `The first ${most} of ${rows.length.toLocaleString()} rows. `}Other days, and a file for spreadsheets: <code>slipway usage --csv</code>.</p>`;
}

/**
 * The usage of the last 30 days.
 * @param {{query?: string, by: string[]}} props query selects an organisation or a workspace; by is
 *   what rows can be about
 */
export function Usage({ query = "", by }) {
  const [column, choose] = useState(by[0]);
  return html`<section><h2>Usage in 30 days</h2>
    <form class="fields row"><p><label for="usage-by">By</label><select id="usage-by" value=${column} onChange=${(/** @type {any} */ e) => choose(e.currentTarget.value)}>
      ${by.map((c) => html`<option key=${c} value=${c}>${columns[c][0]}</option>`)}</select></p></form>
    <${Rows} key=${column} column=${column} query=${query} /></section>`;
}
