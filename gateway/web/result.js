// The result of a request.
import { computed, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call, words } from "./api.js";
import { html } from "./html.js";
import { Later } from "./later.js";
import { remember } from "./names.js";
import { order } from "./order.js";
import { note } from "./recent.js";
import { Told } from "./told.js";

/**
 * @typedef {{requestId: string, containerToken?: string, targetImage: string, expiration?: string, buildId?: string, cached?: boolean, succeeded?: boolean, keptId?: string, earlier?: string}} Given earlier is the build of the name that the image had before it was kept
 * @typedef {{state: "none" | "asking"} | {state: "refused", message: string} | {state: "given", given: Given, body: object}} Result
 */

/** The latest response; it is cleared when the request changes. */
export const result = signal(/** @type {Result} */ ({ state: "none" }));

/** The response whose form the user has opened again. */
const unfolded = signal(/** @type {Given | undefined} */ (undefined));

/** Reports whether the form is folded, because its result is shown. */
export const folded = computed(() => result.value.state === "given" && result.value.given !== unfolded.value);

/** Shows the form, and goes to the field that describes the image. */
export function unfold() {
  const r = result.peek();
  unfolded.value = r.state === "given" ? r.given : undefined;
  requestAnimationFrame(() => {
    const field = document.querySelector("#panel :is(#search, textarea, input[type=text])");
    field?.scrollIntoView({ block: "center" });
    if (field instanceof HTMLElement) field.focus();
  });
}

/** Loads the view of a container. */
const made = () => import("./made.js");

/** Sends the composed request. */
export async function submit() {
  const body = order.value;
  if (!body) return;
  made().catch(() => undefined); // while the service responds; its failure is reported with the response
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

export function Result() {
  const r = result.value;
  useEffect(() => order.subscribe(() => {
    result.value = { state: "none" };
  }), []);
  if (r.state === "refused") {
    return html`<section class="result failed" role="alert"><h2>The image cannot be built</h2><pre class="why"><${Told} text=${r.message} /></pre></section>`;
  }
  if (r.state !== "given") return null;
  return html`<${Later} key=${r.given.requestId} load=${made} given=${r.given} body=${r.body} />`;
}
