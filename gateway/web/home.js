// The first view: describe an image, and get its name.
import { useEffect } from "preact/hooks";
import { batch } from "@preact/signals";
import { lost, resume } from "./again.js";
import { root } from "./api.js";
import { Chips } from "./chips.js";
import { Choice } from "./choice.js";
import { follow } from "./history.js";
import { html } from "./html.js";
import { Art } from "./art.js";
import { early } from "./early.js";
import { Later } from "./later.js";
import { age, channels, entries, exact, format, image, isMountable, isPicked, isSingle, kind, made, order, platform, platforms, usualChannels } from "./order.js";
import { answer, Preflight } from "./preflight.js";
import { Recent } from "./recent.js";
import { folded, Result, result, submit, unfold } from "./result.js";
import { Search } from "./search.js";

/** The options that all tabs share. */
function Machine() {
  const both = "linux/amd64,linux/arm64";
  return html`<div class="machine">
    <${Choice} title="Runs with" name="format" value=${made.value} choose=${(/** @type {string} */ f) => (format.value = f)}
      options=${[["docker", "Docker, Podman, Kubernetes"], ["sif", "Singularity"], ["environment", "slipway run", !isMountable.value]]} />
    <${Choice} title="On" name="platform" value=${platforms.value.join()} choose=${(/** @type {string} */ p) => (platform.value = p)}
      options=${[["linux/amd64", "x86-64"], ["linux/arm64", "ARM"], [both, "both", isSingle.value]]} />
  </div>`;
}

function Channels() {
  return html`<details class="more" open=${channels.value.length > 0}><summary>Channels${channels.value.length ? "" : `: ${usualChannels.join(", ")}`}</summary>
    <label for="channels">Names or addresses; the first has the highest priority</label>
    <input id="channels" type="text" autocapitalize="none" spellcheck=${false} autocomplete="off" value=${channels.value.join(", ")} placeholder=${`e.g. ${usualChannels.join(", ")}`}
      onChange=${(/** @type {any} */ e) => (channels.value = e.currentTarget.value.split(/[\s,]+/).filter(Boolean))} />
  </details>`;
}

/** Which packages are used, by their age. */
function Age() {
  const { asOf, minAge, minAgeExcept } = age.value;
  /** @param {Partial<typeof age.value>} change */
  const set = (change) => (age.value = { ...age.value, ...change });
  return html`<details class="more age" open=${!!(asOf || minAge || minAgeExcept.length)}><summary>Age of packages</summary>
    <div class="settings">
      <p><label for="as-of">Channels as of</label><input id="as-of" type="text" autocapitalize="none" spellcheck=${false} autocomplete="off" maxlength="64" value=${asOf}
        placeholder="e.g. 2026-03-01" onChange=${(/** @type {any} */ e) => set({ asOf: e.currentTarget.value.trim() })} /></p>
      <p><label for="min-age">Minimum age</label><input id="min-age" type="text" autocapitalize="none" spellcheck=${false} autocomplete="off" maxlength="32" value=${minAge}
        placeholder="e.g. 7d" onChange=${(/** @type {any} */ e) => set({ minAge: e.currentTarget.value.trim() })} /></p>
      <p class="wide"><label for="min-age-except">Packages of any age</label><input id="min-age-except" type="text" autocapitalize="none" spellcheck=${false} autocomplete="off"
        value=${minAgeExcept.join(", ")} placeholder="e.g. openssl, ca-certificates"
        onChange=${(/** @type {any} */ e) => set({ minAgeExcept: e.currentTarget.value.split(/[\s,]+/).filter(Boolean) })} /></p>
    </div>
  </details>`;
}

/** @type {[title: string, packages: string[]][]} */
const examples = [["samtools and bwa", ["samtools", "bwa"]], ["R with Seurat", ["r-base", "r-seurat"]], ["PyTorch for GPUs", ["pytorch-gpu"]]];

/** What the packages tab shows before anything is chosen. */
function Examples() {
  return html`<div class="examples"><p class="empty">Type the name of a package, and choose it with Enter, or try:</p>
    <p class="choices">${examples.map(([title, packages]) => html`<button type="button" key=${title} onClick=${() => (entries.value = packages)}>${title}</button>`)}</p>
    <p class="empty">Or look for an image in <a href=${new URL("c", root).href}>the catalogue</a> of those that were kept.</p></div>`;
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

const environmentTab = async () => ({ View: (await import("./text.js")).Environment });
const dockerfileTab = async () => ({ View: (await import("./text.js")).Dockerfile });

function Submit() {
  const asking = result.value.state === "asking";
  const impossible = answer.value.state === "impossible";
  return html`<button type="button" id="get" class="button" onClick=${submit} disabled=${!order.value || asking || impossible}>${asking ? "Asking…" : "Get container"}</button>`;
}

/** The request in one line, instead of the form, while its result is shown. */
function Brief() {
  const what = kind.value === "packages" ? entries.value.join(", ")
    : kind.value === "image" ? [image.value, ...entries.value].join(" + ")
    : kind.value === "dockerfile" ? "Dockerfile" : exact.value ? "Lock" : "Environment";
  const on = platforms.value.map((p) => (p === "linux/arm64" ? "ARM" : "x86-64")).join(" and ");
  return html`<div class="brief"><p><strong>${what}</strong> · ${on} · ${{ sif: "Singularity", environment: "slipway run" }[made.value] ?? "Docker"}</p>
    <button type="button" class="pill" onClick=${() => unfold()}>Change</button></div>`;
}

/** Fills the form with the request of another view, and with what was entered before this script ran. @param {(() => void) | undefined} again */
function fill(again) {
  batch(() => {
    again?.();
    if (early.chosen.format) format.value = early.chosen.format;
    if (early.chosen.platform) platform.value = early.chosen.platform;
  });
}

// The beginning of the document is the same in home.html, which is shown before this script has arrived.
export function Home() {
  useEffect(() => {
    void resume().catch(() => undefined).then((again) => follow(() => fill(again))); // until the document is left
  }, []);
  return html`
    <div class="hero"><div><h1>What should be inside?</h1>
      <p class="lead">Choose packages, and get the name of a container immediately. It is built in the background, and pulling waits for it.</p></div>
      <${Art} /></div>
    ${lost.value.length > 0 && html`<section class="lost" aria-labelledby="lost"><h2 id="lost">What could not be copied</h2>
      <ul>${lost.value.map((text) => html`<li key=${text}>${text}</li>`)}</ul></section>`}
    ${folded.value && html`<${Brief} />`}
    <form class="order" autocomplete="off" hidden=${folded.value} onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
    <div class="tabs" role="tablist" aria-label="Made from" onKeyDown=${turn}>
      ${tabs.map(([k, title]) => html`<button type="button" role="tab" id=${`tab-${k}`} key=${k} aria-selected=${kind.value === k} aria-controls="panel"
        tabindex=${kind.value === k ? 0 : -1} onClick=${() => (kind.value = k)}>${title}</button>`)}
    </div>
    <div id="panel" role="tabpanel" aria-labelledby=${`tab-${kind.value}`}>
      ${kind.value === "packages" && html`<${Search} title="Find packages" /><${Chips} />
        ${!entries.value.length && html`<${Examples} />`}`}
      ${kind.value === "environment" && html`<${Later} key="environment" load=${environmentTab} />`}
      ${kind.value === "dockerfile" && html`<${Later} key="dockerfile" load=${dockerfileTab} />`}
      ${kind.value === "image" && html`<${Later} key="image" load=${() => import("./image.js")} />`}
      <${Preflight} />
      ${isPicked.value && (kind.value === "packages" || entries.value.length > 0) && html`<${Channels} />`}
      ${(kind.value === "packages" || (kind.value === "environment" && !exact.value) || (kind.value === "image" && entries.value.length > 0)) && html`<${Age} />`}
      <${Machine} />
      <${Submit} />
    </div>
    </form>
    <${Result} />
    ${!order.value && html`<${Recent} />`}`;
}
