// Commands and settings that use an image name, ready to copy.
import { useState } from "preact/hooks";
import { root } from "./api.js";
import { Copied } from "./copy.js";
import { html } from "./html.js";

/** @typedef {{packages?: {entries?: string[], channels?: string[], condaOpts?: object}, containerImage?: string, containerConfig?: object, containerIncludes?: string[], keep?: boolean}} Body */
/** @typedef {[title: string, command: string]} Use */

/** Quotes a text for a shell. @param {string} text */
function quoted(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Quotes a text for Groovy. @param {string} text */
function groovy(text) {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}

/**
 * Nextflow settings with which each run of a pipeline requests its own name, valid for the run.
 * Empty if the request cannot be expressed in Nextflow settings, or has a permanent name.
 * @param {Body} body
 * @returns {Use[]}
 */
function wave({ packages, containerImage, containerConfig, containerIncludes, keep }) {
  if (containerConfig || containerIncludes || packages?.condaOpts || keep) return [];
  const block = `wave {\n    enabled = true\n    endpoint = ${groovy(root.href.replace(/\/$/, ""))}`;
  if (containerImage) return [["Nextflow, wave {}", `${block}\n}\nprocess.container = ${groovy(containerImage)}`]];
  if (!packages?.entries) return [];
  const channels = packages.channels ? `\nconda.channels = [${packages.channels.map(groovy).join(", ")}]` : "";
  return [["Nextflow, wave {}", `${block}\n    strategy = 'conda'\n}${channels}\nprocess.conda = ${groovy(packages.entries.join(" "))}`]];
}

/** The longest request that is shown as a command, in characters. */
const longest = 20_000;

/**
 * @param {string} name @param {Body} [body] the request of the name, if it is known
 * @param {string} [format] "environment" for an environment without an image, which no container engine runs
 * @returns {Use[]}
 */
export function uses(name, body, format) {
  const json = JSON.stringify(body) ?? "";
  /** @type {Use[]} */
  const curl = !json || json.length > longest ? [] : [["curl", `curl -s ${new URL("v1alpha2/container", root)} -H 'Content-Type: application/json' -d ${quoted(json)}`]];
  /** @type {Use} */
  const nextflow = ["Nextflow", `process.container = '${name}'`];
  if (format === "environment") return [["slipway run", `slipway run ${name} -- CMD`], ["slipway shell", `slipway shell ${name}`], ...curl];
  if (name.startsWith("oras://")) return [["Apptainer", `apptainer pull image.sif ${name}`], ["Singularity", `singularity pull image.sif ${name}`], nextflow, ...curl];
  return [
    ["Docker", `docker run --rm -it ${name}`],
    ["Podman", `podman run --rm -it ${name}`],
    ["Apptainer", `apptainer shell docker://${name}`],
    ["Kubernetes", `kubectl run shell --rm -it --restart=Never --image=${name} -- sh`],
    nextflow,
    ...(body ? wave(body) : []),
    ...curl,
  ];
}

/** An image name in large type, and one way at a time to use it. @param {{name: string, body?: Body, format?: string}} props */
export function Uses({ name, body, format }) {
  const all = uses(name, body, format);
  const [shown, show] = useState(0);
  const [what, command] = all[shown] ?? all[0];
  return html`<div class="uses">
    <div class="choices" role="group" aria-label="How it is used">
      ${all.map(([title], i) => html`<button type="button" key=${title} aria-pressed=${i === shown} onClick=${() => show(i)}>${title}</button>`)}
    </div>
    <${Copied} text=${command} what=${`the command for ${what}`} />
  </div>`;
}

