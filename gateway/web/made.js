// A container that was requested: its image name, how to use it, and the progress of its build.
import { useEffect, useRef, useState } from "preact/hooks";
import { buildPage, call, catalogPage, containerPage } from "./api.js";
import { Action } from "./action.js";
import { Copied } from "./copy.js";
import { html, moment } from "./html.js";
import { canKeep, Keep } from "./keep.js";
import { Expected, Failed, Steps } from "./progress.js";
import { result, unfold } from "./result.js";
import { Uses } from "./uses.js";
import { Watch } from "./watch.js";

/** @typedef {import("./result.js").Given} Given */

/** @param {{id: string, request?: string, watch: Watch}} props request identifies the request in API calls, and is undefined if it cannot be cancelled: its token or, for a frozen image, its id */
function Making({ id, request, watch }) {
  const end = watch.end.value;
  const last = watch.size.value ? watch.all[watch.all.length - 1].text : "";
  return html`<${Steps} seen=${watch.seen.value} end=${end} place=${watch.place.value} />
    ${!end && html`<${Expected} expected=${watch.expected.value} />`}
    ${!end && html`<p class="last">${watch.problem.value || last}</p>`}
    <p role="status">${end?.succeeded ? "Ready to pull." : end ? "" : "You can pull it now: the pull waits for the build."} <a href=${buildPage(id)}>The build and its log</a></p>
    ${!end && request && html`<div class="actions"><${Action} plain title="Cancel" act=${() => call("DELETE", `v1alpha2/container/${request}`)} /></div>`}`;
}

/** Shows the permanent name of an image instead of an earlier name. @param {Given} kept @param {Given} given @param {object} body */
function keep(kept, given, body) {
  const r = result.peek();
  if (r.state === "given" && r.given === given) result.value = { state: "given", given: { ...kept, earlier: given.buildId }, body };
}

/** @param {{id: string, earlier?: string}} props */
function Kept({ id, earlier }) {
  const differs = earlier && !earlier.startsWith(`${id}_`);
  return html`<p class="note">The name does not expire, and anyone can pull by it. <a href=${catalogPage(id)}>Its page in the catalogue</a> shows what is in the image and how to cite it.</p>
    ${differs && html`<p class="note problem">The packages or the base image have changed since the earlier name was made: the kept image has the current ones.</p>`}`;
}

/** @param {{given: Given, body: import("./keep.js").Body & {format?: string}}} props */
export function View({ given, body }) {
  const title = useRef(/** @type {HTMLElement | null} */ (null));
  const [watch, observe] = useState(/** @type {Watch | undefined} */ (undefined));
  const building = given.succeeded ? undefined : given.buildId;
  useEffect(() => {
    title.current?.focus();
    if (!building) return undefined;
    const w = new Watch(building);
    observe(w);
    return () => w.close();
  }, [given.requestId]);
  const end = watch?.end.value, isEnvironment = body.format === "environment";
  if (end && !end.succeeded) {
    return html`<section class="result" aria-label="The container was not built"><${Failed} reason=${end.reasonCode} message=${end.message} />
      <div class="actions"><button type="button" class="button" onClick=${unfold}>Change and try again</button> <a href=${buildPage(given.buildId ?? "")}>The build and its log</a></div></section>`;
  }
  return html`<section class="result" aria-labelledby="result-title">
    <h2 id="result-title" ref=${title} tabindex="-1">${given.keptId ? `Your ${isEnvironment ? "environment" : "image"} is kept` : `Your ${isEnvironment ? "environment" : "container"}`}</h2>
    <${Copied} large text=${given.targetImage} what="the name" />
    <${Uses} key=${given.targetImage} name=${given.targetImage} body=${given.keptId ? { ...body, keep: true } : body} format=${body.format} />
    ${building
      ? watch && html`<${Making} id=${building} watch=${watch} request=${given.keptId ? undefined : given.containerToken ?? given.requestId} />`
      : html`<p role="status">Ready to pull.${given.buildId ? html` <a href=${buildPage(given.buildId)}>The build and its log</a>` : ""}</p>`}
    ${given.keptId && html`<${Kept} id=${given.keptId} earlier=${given.earlier} />`}
    ${given.expiration && html`<p class="note">The name works until ${moment(given.expiration)}. Anyone who has the name can pull. <a href=${containerPage(given.requestId)}>What is served, and how to revoke it</a></p>`}
    ${!given.keptId && canKeep(body) && html`<${Keep} body=${body} kept=${(/** @type {Given} */ k) => keep(k, given, body)} />`}
  </section>`;
}
