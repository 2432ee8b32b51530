// The tab for adding to an existing image.
import { Chips } from "./chips.js";
import { Files } from "./files.js";
import { html } from "./html.js";
import { entries, files, image, includes, settings } from "./order.js";
import { Search } from "./search.js";
import { useState } from "preact/hooks";

/** @param {{id: string, title: string, name: "entrypoint" | "cmd" | "workingDir", example: string}} props */
function Setting({ id, title, name, example }) {
  return html`<p><label for=${id}>${title}</label><input id=${id} type="text" autocapitalize="none" autocomplete="off" spellcheck=${false} placeholder=${example}
    value=${settings.value[name]} onInput=${(/** @type {any} */ e) => (settings.value = { ...settings.value, [name]: e.currentTarget.value })} /></p>`;
}

function Settings() {
  const set = Object.values(settings.value).some(Boolean);
  return html`<details class="more" open=${set}><summary>Settings: command, folder, variables</summary>
    <div class="settings">
      <${Setting} id="entrypoint" title="Program" name="entrypoint" example="e.g. /usr/bin/samtools" />
      <${Setting} id="cmd" title="Its arguments" name="cmd" example="e.g. view --help" />
      <${Setting} id="folder" title="Folder it starts in" name="workingDir" example="e.g. /data" />
      <p class="wide"><label for="env">Variables, one on each line</label><textarea id="env" rows="3" spellcheck=${false} autocapitalize="none" placeholder="e.g. LC_ALL=C.UTF-8" value=${settings.value.env}
        onInput=${(/** @type {any} */ e) => (settings.value = { ...settings.value, env: e.currentTarget.value })}></textarea></p>
    </div>
    <p class="note">Empty fields keep the image's values. Anyone who can pull the image can read its variables.</p>
  </details>`;
}

function OwnFiles() {
  const [into, put] = useState("/");
  return html`<details class="more" open=${!!files.value}><summary>Files of your own</summary>
    <p><label for="into">Folder in the image</label><input id="into" type="text" autocapitalize="none" autocomplete="off" spellcheck=${false} value=${into}
      disabled=${!!files.value} onInput=${(/** @type {any} */ e) => put(e.currentTarget.value)} /></p>
    <${Files} title="Files of your own" note="Drop files here, or" of=${files} into=${into} />
  </details>`;
}

function Includes() {
  return html`<details class="more" open=${includes.value.length > 0}><summary>Layers of other images</summary>
    <label for="includes">Images, one on each line; their layers are added on top, unchanged</label>
    <textarea id="includes" rows="2" spellcheck=${false} autocapitalize="none" placeholder="e.g. docker.io/library/busybox:1.37" value=${includes.value.join("\n")}
      onChange=${(/** @type {any} */ e) => (includes.value = e.currentTarget.value.split(/\s+/).filter(Boolean))}></textarea>
  </details>`;
}

export function View() {
  return html`<div class="search existing"><label for="image">Image</label>
      <input id="image" type="text" autocapitalize="none" autocomplete="off" spellcheck=${false} placeholder="e.g. docker.io/library/python:3.13-slim" value=${image.value}
        aria-describedby="image-note" onInput=${(/** @type {any} */ e) => (image.value = e.currentTarget.value)} />
      <p class="note" id="image-note">Any image that this service can read, or a name that it issued. You get a name for the image with your additions.</p></div>
    <${Search} title="Add packages" /><${Chips} />
    ${entries.value.length > 0 && html`<p class="note">They are installed in /opt/conda; the image's files stay.</p>`}
    <${Settings} /><${OwnFiles} /><${Includes} />`;
}
