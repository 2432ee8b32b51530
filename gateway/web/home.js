// The first view: say what should be inside, and get a name.
import { effect } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { lost, resume } from "./again.js";
import { Chips } from "./chips.js";
import { html } from "./html.js";
import { Existing } from "./image.js";
import { channels, entries, format, isPicked, isSingle, kind, order, platform, platforms, query, read, usualChannels } from "./order.js";
import { answer, Preflight } from "./preflight.js";
import { Result, result, submit } from "./result.js";
import { Search } from "./search.js";
import { Dockerfile, Environment } from "./text.js";

/**
 * A choice of one of a few.
 * @param {{title: string, name: string, value: string, choose: (value: string) => void, options: [value: string, title: string, off?: boolean][]}} props
 */
function Choice({ title, name, value: chosen, choose, options }) {
  return html`<fieldset class="choice"><legend>${title}</legend>
    ${options.map(([value, label, off]) => html`<label key=${value}><input type="radio" name=${name} value=${value} checked=${chosen === value}
      disabled=${!!off} onChange=${() => choose(value)} /><span>${label}</span></label>`)}
  </fieldset>`;
}

/** What all tabs have. */
function Machine() {
  const both = "linux/amd64,linux/arm64";
  return html`<div class="machine">
    <${Choice} title="Runs with" name="format" value=${format.value} choose=${(/** @type {string} */ f) => (format.value = f)}
      options=${[["docker", "Docker, Podman, Kubernetes"], ["sif", "Singularity"]]} />
    <${Choice} title="On" name="platform" value=${platforms.value.join()} choose=${(/** @type {string} */ p) => (platform.value = p)}
      options=${[["linux/amd64", "x86-64"], ["linux/arm64", "ARM"], [both, "both", isSingle.value]]} />
  </div>`;
}

function Channels() {
  return html`<details class="more" open=${channels.value.length > 0}><summary>Channels${channels.value.length ? "" : `: ${usualChannels.join(", ")}`}</summary>
    <label for="channels">Names or addresses, the first has precedence</label>
    <input id="channels" type="text" autocapitalize="none" spellcheck=${false} autocomplete="off" value=${channels.value.join(", ")} placeholder=${usualChannels.join(", ")}
      onChange=${(/** @type {any} */ e) => (channels.value = e.currentTarget.value.split(/[\s,]+/).filter(Boolean))} />
  </details>`;
}

const tabs = [["packages", "Packages"], ["environment", "Environment"], ["dockerfile", "Dockerfile"], ["image", "Image"]];

/** @param {KeyboardEvent} event */
function turn(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const at = tabs.findIndex(([k]) => k === kind.value);
  kind.value = tabs[(at + step + tabs.length) % tabs.length][0];
  document.getElementById(`tab-${kind.value}`)?.focus();
  event.preventDefault();
}

function Submit() {
  const asking = result.value.state === "asking";
  const impossible = answer.value.state === "impossible";
  return html`<button type="button" id="get" class="button" onClick=${submit} disabled=${!order.value || asking || impossible}>${asking ? "Asking…" : "Get container"}</button>`;
}

export function Home() {
  useEffect(() => {
    read(location.search);
    resume();
    return effect(() => history.replaceState(null, "", query.value ? `?${query.value}` : location.pathname));
  }, []);
  return html`
    <h1>What should be inside?</h1>
    <p class="lead">Choose packages, and get the name of a container at once. It is built while you go on, and pulling waits for it.</p>
    ${lost.value.length > 0 && html`<section class="lost" aria-labelledby="lost"><h2 id="lost">What is not taken over</h2>
      <ul>${lost.value.map((text) => html`<li key=${text}>${text}</li>`)}</ul></section>`}
    <div class="tabs" role="tablist" aria-label="Made from" onKeyDown=${turn}>
      ${tabs.map(([k, title]) => html`<button type="button" role="tab" id=${`tab-${k}`} key=${k} aria-selected=${kind.value === k} aria-controls="panel"
        tabindex=${kind.value === k ? 0 : -1} onClick=${() => (kind.value = k)}>${title}</button>`)}
    </div>
    <div id="panel" role="tabpanel" aria-labelledby=${`tab-${kind.value}`}>
      ${kind.value === "packages" && html`<${Search} title="Find packages" /><${Chips} />
        ${!entries.value.length && html`<p class="empty">Nothing chosen yet. Type the name of a package, and choose it with Enter.</p>`}`}
      ${kind.value === "environment" && html`<${Environment} />`}
      ${kind.value === "dockerfile" && html`<${Dockerfile} />`}
      ${kind.value === "image" && html`<${Existing} />`}
      <${Preflight} />
      ${isPicked.value && (kind.value === "packages" || entries.value.length > 0) && html`<${Channels} />`}
      <${Machine} />
      <${Submit} />
    </div>
    <${Result} />`;
}
