// The builds of the signed-in user, newest first.
import { useState } from "preact/hooks";
import { buildPage, call, root } from "./api.js";
import { duration, html, moment } from "./html.js";
import { Pager, useAgain, useLoad, Waiting } from "./load.js";

const most = 20;

/** @typedef {import("./build.js").Record} Record */

/** The title of a build: its image's tag, without the digest part. @param {Record} b */
function nameOf(b) {
  const name = b.targetImage?.split("/").at(-1)?.split(":").at(-1) ?? "";
  return name.replace(/--[0-9a-f]{16,}(-\w+)*$/, "") || b.buildId;
}

/** @param {{build: Record}} props */
function Row({ build: b }) {
  const state = b.status !== "COMPLETED" ? "running" : b.succeeded ? "good" : "bad";
  return html`<li><div class="what"><a href=${buildPage(b.buildId)}>${nameOf(b)}</a>
      <p class="note">${[b.platform, b.startTime && moment(b.startTime), b.duration !== undefined && `took ${duration(b.duration)}`].filter(Boolean).join(" · ")}</p></div>
    <span class=${`state ${state}`}>${{ running: "Building", good: "Built", bad: b.reasonCode === "cancelled" ? "Cancelled" : "Failed" }[state]}</span></li>`;
}

export function View() {
  const [offset, go] = useState(0);
  const list = useLoad((signal) => call("GET", `v1alpha1/builds?max=${most}&offset=${offset}`, { signal }), [offset]);
  /** @type {Record[]} */
  const builds = list.value?.builds ?? [];
  useAgain(list.again, builds.some((b) => b.status !== "COMPLETED") ? 5000 : 0);
  return html`<h1>Your builds</h1>
    <${Waiting} of=${list} what="Your builds" />
    ${list.value && !builds.length && html`<p class="empty">You have not requested a build yet. <a href=${root.href}>Make a container</a>: while you are signed in, its build is listed here.</p>`}
    ${builds.length > 0 && html`<ul class="rows">${builds.map((b) => html`<${Row} key=${b.buildId} build=${b} />`)}</ul>
      <${Pager} what="builds" offset=${offset} most=${most} total=${list.value.totalSize ?? 0} go=${go} />
      <p class="note">A name that you pull by is a secret, and is not stored: the page of a build gives you a new one.</p>`}`;
}
