// What this server can do now, for users without an account, too.
import { useEffect } from "preact/hooks";
import { call, root } from "./api.js";
import { html } from "./html.js";
import { useAgain, useLoad, Waiting } from "./load.js";

/** @type {Record<string, string>} the titles of the abilities */
const titles = {
  build: "Builds Dockerfiles", freeze: "Freezes images in your repository", sif: "Makes Singularity images", conda: "Makes images of packages", mirror: "Mirrors images",
  scan: "Looks for known vulnerabilities",
};

/** The pause between two checks, in ms. */
const pause = 30_000;

export function Abilities() {
  const got = useLoad((signal) => call("GET", "v1alpha1/abilities", { signal }), []);
  useAgain(got.again, pause);
  if (!got.value) return html`<${Waiting} of=${got} what="What the server can do" />`;
  return html`<ul class="rows">${(got.value.abilities ?? []).map((/** @type {any} */ a) => html`<li key=${a.name}><div class="what"><strong>${titles[a.name] ?? a.name}</strong>
    <p class="note">${a.problem || (a.platforms ?? []).join(", ")}</p></div><span class=${`state ${a.available ? "good" : ""}`}>${a.available ? "Yes" : "No"}</span></li>`)}</ul>
    ${got.problem && html`<${Waiting} of=${got} what="The latest state" />`}`;
}

export function View() {
  useEffect(() => {
    document.title = "Status · Slipway";
  }, []);
  return html`<h1>Status</h1><p class="lead">What this server can do now. The list is updated every 30 seconds.</p>
    <${Abilities} />
    <p class="note">Programs read it at <a href=${new URL("v1alpha1/abilities", root).href}><code>/v1alpha1/abilities</code></a>. Operators find more in <a href=${new URL("docs/operate/monitoring", root).href}>the metrics</a>.</p>`;
}
