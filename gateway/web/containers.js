// The containers that the signed-in user requested, newest first.
import { useState } from "preact/hooks";
import { call, containerPage, root } from "./api.js";
import { html, moment } from "./html.js";
import { Sure, useLoad, Waiting } from "./load.js";

const most = 20;

/**
 * @typedef {{requestId: string, containerImage?: string, containerPlatform?: string, format?: string, buildId?: string, workspaceId?: number, workflowId?: string,
 *   freeze?: boolean, creationTime: string, expiration?: string, revocationTime?: string}} Listed
 */

/** The title of a container: the package names if it was built, otherwise the image name. @param {Listed} c */
function nameOf(c) {
  const image = c.containerImage ?? "";
  if (!c.buildId || c.freeze) return image;
  return image.split("/").at(-1)?.split(":").at(-1)?.replace(/--[0-9a-f]{16,}(-\w+)*$/, "") || image;
}

/** The state of the container's name. @param {Listed} c @returns {[text: string, look: string]} */
function standing(c) {
  if (c.revocationTime) return ["Revoked", "bad"];
  if (c.freeze || !c.expiration) return ["Permanent", "good"];
  return new Date(c.expiration).getTime() < Date.now() ? ["Expired", ""] : ["Works", "good"];
}

/** @param {{container: Listed, changed: () => void}} props */
function Row({ container: c, changed }) {
  const [text, look] = standing(c);
  const works = look === "good";
  const notes = [c.containerPlatform?.split(",").join(" and "), c.format === "sif" && "Singularity", c.format === "environment" && "environment", moment(c.creationTime), works && c.expiration && `until ${moment(c.expiration)}`,
    c.workspaceId && `workspace ${c.workspaceId}`, c.workflowId && `for the run ${c.workflowId}`];
  const revoke = async () => {
    await call("DELETE", `v1alpha2/container/${c.requestId}`);
    changed();
  };
  return html`<li><div class="what"><a href=${containerPage(c.requestId)}>${nameOf(c)}</a><p class="note">${notes.filter(Boolean).join(" · ")}</p></div>
    <span class=${`state ${look}`}>${text}</span>
    ${works && !c.freeze && html`<${Sure} label="Revoke" what=${nameOf(c)} act=${revoke} />`}</li>`;
}

export function View() {
  const [pages, turn] = useState([""]); // the page token of each page so far
  const from = pages.at(-1) ?? "";
  const list = useLoad((signal) => call("GET", `v1alpha1/containers?max=${most}${from && `&pageToken=${from}`}`, { signal }), [from]);
  /** @type {Listed[]} */
  const containers = list.value?.containers ?? [];
  const next = list.value?.nextPageToken;
  return html`<h1>Your containers</h1>
    <${Waiting} of=${list} what="Your containers" />
    ${list.value && !containers.length && html`<p class="empty">You have not requested a container yet. <a href=${root.href}>Make one</a>: while you are signed in, it is listed here.</p>`}
    ${containers.length > 0 && html`<ul class="rows">${containers.map((c) => html`<${Row} key=${c.requestId} container=${c} changed=${list.again} />`)}</ul>
      ${(pages.length > 1 || next) && html`<nav class="pager" aria-label="Pages of containers">
        <button type="button" class="small" disabled=${pages.length === 1} onClick=${() => turn(pages.slice(0, -1))}>Newer</button>
        <button type="button" class="small" disabled=${!next} onClick=${() => turn([...pages, next])}>Older</button></nav>`}
      <p class="note">A name that you pull by is a secret, and is not stored: the page of a container gives you a new one.</p>`}`;
}
