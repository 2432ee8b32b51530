// What is made from a file: it is pasted, opened or dropped.
import { useState } from "preact/hooks";
import { html } from "./html.js";
import { dockerfile, environment } from "./order.js";

/** The largest file that a request takes, in bytes. */
const largest = 1 << 20;

/**
 * @param {{id: string, title: string, of: import("@preact/signals").Signal<string>, example: string, note: string}} props
 */
function Text({ id, title, of, example, note }) {
  const [problem, say] = useState("");
  /** @param {File | null | undefined} file */
  const read = async (file) => {
    if (!file) return;
    if (file.size > largest) say(`${file.name} is larger than 1 MiB.`);
    else {
      of.value = await file.text();
      say("");
    }
  };
  return html`<div class="recipe">
    <div class="head"><label for=${id}>${title}</label><label class="open">Open a file<input type="file" class="unseen"
      onChange=${(/** @type {any} */ e) => read(e.currentTarget.files[0])} /></label></div>
    <textarea id=${id} rows="12" spellcheck=${false} autocapitalize="none" placeholder=${example} aria-describedby=${`${id}-note`} value=${of.value}
      onInput=${(/** @type {any} */ e) => (of.value = e.currentTarget.value)}
      onDrop=${(/** @type {DragEvent} */ e) => {
        if (!e.dataTransfer?.files.length) return;
        e.preventDefault();
        void read(e.dataTransfer.files[0]);
      }}></textarea>
    <p class="note" id=${`${id}-note`}>${note}</p>
    ${problem && html`<p class="note problem" role="alert">${problem}</p>`}
  </div>`;
}

export function Dockerfile() {
  return html`<${Text} id="dockerfile" title="Dockerfile" of=${dockerfile}
    example=${"FROM docker.io/library/debian:bookworm-slim\nRUN apt-get update && apt-get install -y …"}
    note="Without files of your own: what it copies has to come from images. The command line sends a folder, too." />`;
}

export function Environment() {
  return html`<${Text} id="environment" title="environment.yml" of=${environment}
    example=${"channels:\n  - conda-forge\n  - bioconda\ndependencies:\n  - samtools=1.20"}
    note="Paste it, or drop the file here. What pip installs is known when it is built." />`;
}
