// The chosen packages, each with a list of its versions.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { look } from "./api.js";
import { html } from "./html.js";
import { choose, entries, remove, searched } from "./order.js";
import { parts } from "./spec.js";

/** Versions by package name, newest first; empty until they are known. */
const versions = signal(/** @type {Record<string, string[]>} */ ({}));

/** Looks for the package in the channels in order, as the solver does. @param {string} name @param {string} only */
async function describe(name, only) {
  for (const channel of only ? [only] : searched.value) {
    try {
      const d = await look(`v1alpha1/conda/packages/${encodeURIComponent(channel)}/${encodeURIComponent(name)}`);
      const list = (d.versions ?? []).map((/** @type {any} */ v) => v.version);
      versions.value = { ...versions.value, [name]: list };
      return;
    } catch {
      continue; // another channel may have the package; without a list of versions, any version is accepted
    }
  }
}

/** @param {{entry: string}} props */
function Chip({ entry }) {
  const { channel, name, version } = parts(entry);
  const where = searched.value.join(" ");
  useEffect(() => {
    if (version !== undefined) void describe(name, channel);
  }, [name, channel, where]);
  const known = versions.value[name] ?? [];
  const list = version && !known.includes(version) ? [version, ...known] : known;
  return html`<li class="chip">
    <span class="name">${version === undefined ? entry : name}</span>
    ${version !== undefined && (list.length > 0) && html`<select aria-label=${`Version of ${name}`} value=${version}
      onChange=${(/** @type {any} */ e) => choose(entry, e.currentTarget.value)}>
      <option value="">any version</option>
      ${list.map((v) => html`<option key=${v} value=${v}>${v}</option>`)}
    </select>`}
    <button type="button" class="remove" aria-label=${`Remove ${name}`} onClick=${() => {
      remove(entry);
      document.getElementById("search")?.focus();
    }}>×</button>
  </li>`;
}

export function Chips() {
  if (!entries.value.length) return null;
  return html`<ul class="chips" aria-label="Chosen packages">
    ${entries.value.map((e) => html`<${Chip} key=${parts(e).name} entry=${e} />`)}
  </ul>`;
}
