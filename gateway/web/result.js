// The result of a request: its image name, how to use it, and the progress of its build.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { buildPage, call, catalogPage, containerPage, words } from "./api.js";
import { Action } from "./action.js";
import { Copied } from "./copy.js";
import { html, moment } from "./html.js";
import { canKeep, Keep } from "./keep.js";
import { remember } from "./names.js";
import { order } from "./order.js";
import { Expected, Failed, Steps } from "./progress.js";
import { note } from "./recent.js";
import { Told } from "./told.js";
import { Uses } from "./uses.js";
import { Watch } from "./watch.js";

/**
 * @typedef {{requestId: string, containerToken?: string, targetImage: string, expiration?: string, buildId?: string, cached?: boolean, succeeded?: boolean, keptId?: string, earlier?: string}} Given earlier is the build of the name that the image had before it was kept
 * @typedef {{state: "none" | "asking"} | {state: "refused", message: string} | {state: "given", given: Given, body: object}} Result
 */

/** The latest response; it is cleared when the request changes. */
export const result = signal(/** @type {Result} */ ({ state: "none" }));

/** Sends the composed request. */
export async function submit() {
  const body = order.value;
  if (!body) return;
  result.value = { state: "asking" };
  try {
    const given = await call("POST", "v1alpha2/container", { body });
    remember(given);
    note();
    if (order.peek() === body) result.value = { state: "given", given, body };
  } catch (err) {
    if (order.peek() === body) result.value = { state: "refused", message: words(err) };
  }
}

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

/** Goes to the field that describes the image. */
function change() {
  const field = document.querySelector("#panel :is(#search, textarea, input[type=text])");
  field?.scrollIntoView({ block: "center" });
  if (field instanceof HTMLElement) field.focus();
}

/** @param {{given: Given, body: object}} props */
function Container({ given, body }) {
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
  const end = watch?.end.value;
  if (end && !end.succeeded) {
    return html`<section class="result" aria-label="The container was not built"><${Failed} reason=${end.reasonCode} message=${end.message} />
      <div class="actions"><button type="button" class="button" onClick=${change}>Change and try again</button> <a href=${buildPage(given.buildId ?? "")}>The build and its log</a></div></section>`;
  }
  return html`<section class="result" aria-labelledby="result-title">
    <h2 id="result-title" ref=${title} tabindex="-1">${given.keptId ? "Your image is kept" : "Your container"}</h2>
    <${Copied} large text=${given.targetImage} what="the name" />
    <${Uses} key=${given.targetImage} name=${given.targetImage} body=${given.keptId ? { ...body, keep: true } : body} />
    ${building
      ? watch && html`<${Making} id=${building} watch=${watch} request=${given.keptId ? undefined : given.containerToken ?? given.requestId} />`
      : html`<p role="status">Ready to pull.${given.buildId ? html` <a href=${buildPage(given.buildId)}>The build and its log</a>` : ""}</p>`}
    ${given.keptId && html`<${Kept} id=${given.keptId} earlier=${given.earlier} />`}
    ${given.expiration && html`<p class="note">The name works until ${moment(given.expiration)}. Anyone who has the name can pull. <a href=${containerPage(given.requestId)}>What is served, and how to revoke it</a></p>`}
    ${!given.keptId && canKeep(body) && html`<${Keep} body=${body} kept=${(/** @type {Given} */ k) => keep(k, given, body)} />`}
  </section>`;
}

export function Result() {
  const r = result.value;
  useEffect(() => order.subscribe(() => {
    result.value = { state: "none" };
  }), []);
  if (r.state === "refused") {
    return html`<section class="result failed" role="alert"><h2>The image cannot be built</h2><pre class="why"><${Told} text=${r.message} /></pre></section>`;
  }
  if (r.state !== "given") return null;
  return html`<${Container} key=${r.given.requestId} given=${r.given} body=${r.body} />`;
}
