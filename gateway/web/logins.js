// Registry and channel logins. They are tested when they are added, and their passwords are
// never shown.
import { useRef, useState } from "preact/hooks";
import { call, Failure, words } from "./api.js";
import { html, moment } from "./html.js";
import { Sure, useLoad, Waiting } from "./load.js";
import { Spaces, useSpace, within } from "./space.js";

/** @typedef {{id: string, name: string, provider: string, keys?: {registry?: string, userName?: string}, lastUsed: string | null}} Login */
/** @typedef {{provider: string, registry: string, userName: string, password: string}} Given */
/** The address of a registry without its scheme. @param {string} at */
const bare = (at) => at.replace(/^[a-z]+:\/\//, "").replace(/\/+$/, "");

/** @type {Record<string, string>} */
const kinds = { "container-reg": "Registry", conda: "Conda channel" };

/** How a channel authenticates, besides HTTP basic. @type {[name: string, title: string][]} */
const ways = [["bearer", "a Bearer token"], ["token", "a token in the address (/t/…)"], ["", "a user name and password"]];

/** @param {Given} given @param {number} space */
async function keep({ provider, ...given }, space) {
  const keys = { ...given, registry: bare(given.registry) };
  const name = `${keys.registry} ${new Date().toISOString().slice(0, 19).replace("T", " ")}`.slice(-100);
  return (await call("POST", `api/credentials${within(space)}`, { body: { credentials: { name, provider, keys } } })).credentialsId;
}

/**
 * Tests a login and stores it if it is valid.
 * @param {Given} given
 * @param {number} space
 * @returns {Promise<string>} the result, as a sentence
 */
async function add(given, space) {
  const at = bare(given.registry);
  if (given.provider === "container-reg") {
    if (!(await call("POST", "v1alpha2/validate-creds", { body: { userName: given.userName, password: given.password, registry: at } }))) {
      throw new Failure(0, `${at} does not accept this login. It was not stored.`, undefined);
    }
    await keep(given, space);
    return `${at} accepts this login. It is stored encrypted and used when you pull or build.`;
  }
  const id = await keep(given, space);
  try {
    await call("GET", `v1alpha1/conda/packages?max=1&channel=${encodeURIComponent(at === given.registry ? `https://${at}` : given.registry)}${within(space, "&")}`);
  } catch (err) {
    await call("DELETE", `api/credentials/${id}${within(space)}`);
    throw new Failure(0, `The channel could not be read with this login, which was not stored: ${words(err)}`, undefined);
  }
  return `The channel ${at} accepts this login. It is stored encrypted and used when ${space ? "a participant of the workspace builds" : "you search and build"}.`;
}

/** @param {{id: string, title: string, type?: string, example?: string, name: string}} props */
function Field({ id, title, type = "text", example, name }) {
  return html`<p><label for=${id}>${title}</label><input id=${id} name=${name} type=${type} autocomplete=${type === "password" ? "new-password" : "off"} autocapitalize="none"
    spellcheck=${false} placeholder=${example} required /></p>`;
}

/** @param {{space: number, again: () => void}} props */
function Add({ space, again }) {
  const [provider, choose] = useState("container-reg");
  const [way, show] = useState("bearer");
  const [said, say] = useState({ good: "", bad: "" });
  const [busy, be] = useState(false);
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  const channel = provider === "conda";
  /** @param {Event} e */
  const submit = async (e) => {
    e.preventDefault();
    if (!form.current) return;
    const of = new FormData(form.current);
    const text = (/** @type {string} */ name) => String(of.get(name) ?? "").trim();
    be(true);
    say({ good: "", bad: "" });
    try {
      say({ good: await add({ provider, registry: text("registry"), userName: channel && way ? way : text("user"), password: text("password") }, space), bad: "" });
      form.current.reset();
      again();
    } catch (err) {
      say({ good: "", bad: words(err) });
    }
    be(false);
  };
  return html`<form class="fields" ref=${form} onSubmit=${submit}>
    <fieldset class="choice"><legend>For</legend>${Object.entries(kinds).map(([k, title]) => html`<label key=${k}><input type="radio" name="kind" value=${k}
      checked=${provider === k} onChange=${() => choose(k)} /><span>${title}</span></label>`)}</fieldset>
    <${Field} id="registry" name="registry" title=${channel ? "Channel" : "Registry, with a path if the login is for a part of it"}
      example=${channel ? "conda.example.org/lab" : "quay.io"} />
    ${channel && html`<p><label for="way">Authentication</label><select id="way" value=${way} onChange=${(/** @type {any} */ e) => show(e.currentTarget.value)}>
      ${ways.map(([name, title]) => html`<option key=${name} value=${name}>${title}</option>`)}</select></p>`}
    ${!(channel && way) && html`<${Field} id="user" name="user" title="User name" />`}
    <${Field} id="password" name="password" type="password" title=${channel && way ? "Token" : "Password or token"} />
    <p><button class="button" disabled=${busy}>${busy ? "Testing it…" : "Test and store"}</button></p>
    <div role="status">${said.good && html`<p class="note verdict good">${said.good}</p>`}</div>
    ${said.bad && html`<div class="failed" role="alert"><h2>The login was not stored</h2><p class="why">${said.bad}</p></div>`}
  </form>`;
}

export function View() {
  const [space, choose] = useSpace();
  const list = useLoad((signal) => call("GET", `api/credentials${within(space)}`, { signal }), [space]);
  /** @type {Login[]} */
  const logins = list.value?.credentials ?? [];
  return html`<h1>Logins</h1>
    <p class="lead">For registries and channels that require a login. Passwords are stored encrypted and never shown again.</p>
    <${Spaces} id=${space} choose=${choose} />
    <section><h2>Stored logins</h2><${Waiting} of=${list} what="The logins" />
      ${list.value && !logins.length && html`<p class="empty">None yet.</p>`}
      ${logins.length > 0 && html`<ul class="rows">${logins.map((l) => html`<li key=${l.id}><div class="what"><strong>${l.keys?.registry || l.name}</strong>
        <p class="note">${[kinds[l.provider] ?? l.provider, l.keys?.userName, l.lastUsed ? `last used ${moment(l.lastUsed)}` : "never used"].filter(Boolean).join(" · ")}</p></div>
        <${Sure} label="Remove" what=${l.keys?.registry || l.name} act=${async () => {
          await call("DELETE", `api/credentials/${l.id}${within(space)}`);
          list.again();
        }} /></li>`)}</ul>`}</section>
    <section><h2>Add a login</h2><${Add} key=${space} space=${space} again=${list.again} /></section>`;
}
