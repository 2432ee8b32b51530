// Recipes from a file that is pasted, opened or dropped.
import { useState } from "preact/hooks";
import { count, html } from "./html.js";
import { dropped, Files } from "./files.js";
import { chosenEnvironment, context, dockerfile, environment, environmentName, environments, exact, platforms } from "./order.js";
import { pack, Unfit } from "./pack.js";
import { Told } from "./told.js";

/** The largest file that a request accepts, in bytes. */
const largest = 1 << 20;

/**
 * @param {{id: string, title: string, of: import("@preact/signals").Signal<string>, example: string, note: string,
 *   folder?: (from: DataTransfer) => Promise<void>}} props folder handles a dropped folder
 */
function Text({ id, title, of, example, note, folder }) {
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
        const isFolder = e.dataTransfer.items[0]?.webkitGetAsEntry()?.isDirectory;
        if (isFolder && folder) folder(e.dataTransfer).catch((err) => say(err instanceof Unfit ? err.message : "The folder cannot be read."));
        else if (isFolder) say("This is a folder; drop a file instead.");
        else void read(e.dataTransfer.files[0]);
      }}></textarea>
    <p class="note" id=${`${id}-note`}>${note}</p>
    ${problem && html`<p class="note problem" role="alert"><${Told} text=${problem} /></p>`}
  </div>`;
}

/** Uses the Dockerfile of a folder, unless the field has text already. @param {import("./pack.js").Item[]} items */
async function takeRecipe(items) {
  const recipe = items.find((i) => i.path === "Dockerfile");
  if (recipe && !dockerfile.value.trim()) dockerfile.value = await recipe.file.text();
}

/** Uses a dropped folder as the build context. @param {DataTransfer} from */
async function takeFolder(from) {
  const { items } = await dropped(from);
  context.value = await pack(items, "");
  dockerfile.value = "";
  await takeRecipe(items);
}

export function Dockerfile() {
  return html`<${Text} id="dockerfile" title="Dockerfile" of=${dockerfile} folder=${takeFolder}
    example=${"FROM docker.io/library/debian:bookworm-slim\nRUN apt-get update && apt-get install -y …"}
    note="Write or paste it, or drop the file here, or the folder that it is in." />
    <${Files} folder title="Folder that it copies from" note="For a COPY, drop the folder here, or" of=${context} taken=${takeRecipe} />`;
}

export function Environment() {
  const { title, names, label } = environments.value;
  return html`<${Text} id="environment" title="environment.yml" of=${environment}
    example=${"channels:\n  - conda-forge\n  - bioconda\ndependencies:\n  - samtools=1.20"}
    note="Paste it, or drop the file here: also a pixi.toml or pyproject.toml, or a lock of conda, conda-lock or pixi. Packages of pip are resolved during the build." />
    ${names.length > 1 && html`<p class="space"><label for="environment-name">${title}</label>
      <select id="environment-name" value=${chosenEnvironment.value} onChange=${(/** @type {any} */ e) => (environmentName.value = e.currentTarget.value)}>
        ${names.map((name) => html`<option key=${name} value=${name}>${label(name)}</option>`)}
      </select></p>`}
    ${exact.value && html`<p class="note" role="status">${exact.value.length
      ? `A lock: exactly its ${count(exact.value.length, "package")} for ${platforms.value[0]}, and nothing else.`
      : `A lock, with no packages for ${platforms.value.join(" and ")}.`}</p>`}`;
}
