// The views of signed-in users. Each view is loaded when it is opened.
import { useEffect, useState } from "preact/hooks";
import { call, root } from "./api.js";
import { html } from "./html.js";
import { Later } from "./later.js";
import { Waiting } from "./load.js";
import { ask, me, unsure } from "./me.js";
import { places } from "./menu.js";
import { session } from "./session.js";

/** Loads the page of a container that the list links to. */
async function container() {
  const { View } = await import("./container.js");
  return { View: (/** @type {{args: string[]}} */ { args: [id] }) => html`<${View} id=${id} />` };
}

/** @type {[at: RegExp, load: () => Promise<{View: any}>, title: string][]} */
const views = [
  [/^view\/containers$/, () => import("./containers.js"), "Containers"],
  [/^view\/containers\/([0-9a-f]{64})$/, container, "Container"],
  [/^view\/mine$/, () => import("./mine.js"), "Builds"],
  [/^view\/runs$/, () => import("./runs.js"), "Runs"],
  [/^(?:user\/[^/]+|orgs\/([^/]+)\/workspaces\/([^/]+))\/watch\/(\w+)$/, () => import("./run.js"), "Run"],
  [/^view\/tokens$/, () => import("./tokens.js"), "Tokens"],
  [/^view\/logins$/, () => import("./logins.js"), "Logins"],
  [/^view\/webhooks$/, () => import("./webhooks.js"), "Webhooks"],
  [/^view\/workspaces$/, () => import("./workspaces.js"), "Workspaces"],
  [/^view\/service$/, () => import("./service.js"), "Service"],
  [/^view\/admin\/limits$/, () => import("./limits.js"), "Limits"],
];

/** The views of administrators. @type {[path: string, title: string][]} */
const operators = [["view/service", "Service"], ["view/admin/limits", "Limits"]];

/** The navigation among the views of the signed-in user. @param {{at: string}} props */
function Places({ at }) {
  const [operates, tell] = useState(operators.some(([path]) => path === at));
  useEffect(() => {
    call("GET", "v1alpha2/metrics/builds").then(() => tell(true), () => undefined); // only operators may read this
  }, []);
  /** @type {[string, string][]} */
  const all = operates ? [...places, ...operators] : places;
  const within = at.includes("/watch/") ? "view/runs" : at.startsWith("view/containers/") ? "view/containers" : "";
  return html`<nav class="places" aria-label="Yours">${all.map(([path, title]) => html`<a key=${path} href=${new URL(path, root).href}
    aria-current=${path === at ? "page" : path === within ? "true" : undefined}>${title}</a>`)}</nav>`;
}

/** @param {{at: string}} props */
export function View({ at }) {
  const [found, load, title] = views.find(([pattern]) => pattern.test(at)) ?? [undefined, () => import("./login.js"), "Sign in"];
  useEffect(() => {
    document.body.classList.toggle("wide", /^(view\/(containers|mine|runs|service|admin\/limits)$|user\/|orgs\/)/.test(at));
    document.title = `${title} · Slipway`;
  }, []);
  if (!found || !session.value) return html`<${Later} key="login" load=${() => import("./login.js")} args=${[]} />`;
  if (!me.value) return html`<${Places} at=${at} /><${Waiting} what="This page" of=${{ problem: unsure.value, again: () => ask() }} />`;
  return html`<${Places} at=${at} /><${Later} key=${at} load=${load} args=${(found.exec(at) ?? []).slice(1)} />`;
}
