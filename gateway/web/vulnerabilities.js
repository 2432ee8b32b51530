// Known vulnerabilities of an image: tables of them, and those that are looked up on request.
import { useState } from "preact/hooks";
import { Action } from "./action.js";
import { call } from "./api.js";
import { html, moment } from "./html.js";

/**
 * @typedef {{id: string, severity: string, title?: string, pkgName: string, installedVersion: string, fixedVersion?: string, primaryUrl?: string, purl?: string, match?: string, status?: string, justification?: string, document?: string, path?: string, platform?: string}} Vulnerability
 * @typedef {{vulnerabilities?: Vulnerability[], counts?: Record<string, number>, packages?: number, note?: string, databaseTime?: string}} Scan
 */

/** The largest number of rows; the API returns all. */
const shownRows = 500;

const severities = ["CRITICAL", "HIGH", "MEDIUM", "LOW", "UNKNOWN"];

/** The numbers by severity, the most severe first. @param {Record<string, number> | undefined} counts */
export function tally(counts) {
  return severities.filter((s) => counts?.[s]).map((s) => `${counts?.[s].toLocaleString()} ${s.toLowerCase()}`).join(", ") || "No known vulnerabilities";
}

/** The id, as a link if its address is one of the web. @param {{of: Vulnerability}} props */
function Id({ of }) {
  return /^https?:\/\//.test(of.primaryUrl ?? "") ? html`<a href=${of.primaryUrl} rel="noreferrer noopener">${of.id}</a>` : of.id;
}

/** Why a vulnerability does not count, or how it was compared. @param {Vulnerability} v */
function remark(v) {
  return v.status ? `${v.status.replace("_", " ")}${v.document ? ` (${v.document})` : ""}` : v.match;
}

/** @param {{list: Vulnerability[], name: string}} props name describes the table to screen readers */
export function Table({ list, name }) {
  const platforms = list.some((v) => v.platform), reasons = list.some((v) => v.justification);
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${name}><table class="vulnerabilities">
      <thead><tr><th scope="col">Id</th><th scope="col">Severity</th><th scope="col">Package</th><th scope="col">Version</th><th scope="col">Fixed in</th><th scope="col">Note</th>
        ${reasons && html`<th scope="col">Reason</th>`}${platforms && html`<th scope="col">Platform</th>`}<th scope="col">Title</th></tr></thead>
      <tbody>${list.slice(0, shownRows).map((v, i) => html`<tr key=${i}><td><${Id} of=${v} /></td><td>${v.severity.toLowerCase()}</td><td title=${v.path}>${v.pkgName}</td><td>${v.installedVersion}</td>
        <td>${v.fixedVersion}</td><td>${remark(v)}</td>${reasons && html`<td>${v.justification}</td>`}${platforms && html`<td>${v.platform}</td>`}<td>${v.title}</td></tr>`)}</tbody>
    </table></div>
    ${list.length > shownRows && html`<p class="note">These are the ${shownRows} most severe ones; the API returns all.</p>`}`;
}

/** @param {Scan} scan */
function summary(scan) {
  const ruledOut = (scan.vulnerabilities ?? []).filter((v) => v.status).length;
  return `${tally(scan.counts)} in ${scan.packages ?? 0} packages${ruledOut ? `; ${ruledOut} ruled out by VEX documents` : ""}${scan.databaseTime ? `, with data of ${moment(scan.databaseTime)}` : ""}.`;
}

/** @param {{query: {image: string, platform: string}}} props */
export function Vulnerabilities({ query }) {
  const [scan, set] = useState(/** @type {Scan | undefined} */ (undefined));
  const look = async () => {
    const q = new URLSearchParams({ image: query.image, ...(query.platform && { platform: query.platform }) });
    set(await call("GET", `v1alpha1/images/vulnerabilities?${q}`));
  };
  const list = scan?.vulnerabilities ?? [];
  return html`<section><h2>Known vulnerabilities</h2>
    ${!scan ? html`<div class="actions"><${Action} plain title="Find vulnerabilities" act=${look} /></div>`
      : html`<p class="note" role="status">${summary(scan)}</p>
      ${list.length > 0 && html`<${Table} list=${list} name="Vulnerabilities of the image" />`}
      ${scan.note && html`<p class="note">${scan.note}</p>`}`}
  </section>`;
}
