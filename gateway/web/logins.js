// Registry and channel logins. They are tested when they are added, and their passwords are
// never shown.
import { useRef, useState } from "preact/hooks";
import { call, Failure, words } from "./api.js";
import { html, moment } from "./html.js";
import { Sure, useLoad, Waiting } from "./load.js";
import { Spaces, useSpace, within } from "./space.js";
import { Told } from "./told.js";

/** @typedef {{id: string, name: string, provider: string, keys?: {registry?: string, userName?: string}, lastUsed: string | null}} Login */
/** @typedef {{provider: string, registry: string, userName: string, password: string}} Given */
/** @typedef {{id: string, address: string}} Channel a stored login for a channel, and the channel's URL */
/** @typedef {{good?: string, title?: string, bad?: string, untested?: Channel}} Result a success, or a problem; with a title the login is stored nevertheless */

/** The address of a registry without its scheme. @param {string} at */
const bare = (at) => at.replace(/^[a-z]+:\/\//i, "").replace(/\/+$/, "");

/** @type {Record<string, string>} */
const kinds = { "container-reg": "Registry", conda: "Conda channel" };

/** How a channel authenticates. The names of the first two are the user names that select a kind of token. @type {[name: string, title: string][]} */
const ways = [["bearer", "a Bearer token"], ["token", "a token in the address (/t/…)"], ["", "a user name and password"]];

/** The identity of a stored login. @param {Login} l */
function identity({ provider, keys }) {
  return (provider === "conda" && ways.find(([name]) => name && name === keys?.userName)?.[1]) || keys?.userName;
}

/** What is wrong with a login for a channel; "" if nothing is. @param {Given} given @param {string} way */
function mistake({ registry, userName }, way) {
  if (/^([a-z]+:\/\/)?[^/]*@|[?#]|^([a-z]+:\/\/)?[^/]+\/t\//i.test(registry)) return "The address contains a login. Leave it out of the address, choose how the channel authenticates, and enter the login below.";
  if (way && /^oci:/i.test(registry)) return "A channel in a registry needs a user name and a password. If the registry issues tokens, the password is the token.";
  if (!way && ways.some(([name]) => name && name === userName)) return `The user name ${userName} is reserved for tokens. Choose how the channel authenticates instead.`;
  return "";
}

/** @param {Given} given @param {number} space */
async function keep({ provider, ...given }, space) {
  const keys = { ...given, registry: bare(given.registry) };
  const name = `${keys.registry} ${new Date().toISOString().slice(0, 19).replace("T", " ")}`.slice(-100);
  return (await call("POST", `api/credentials${within(space)}`, { body: { credentials: { name, provider, keys } } })).credentialsId;
}

/** @param {unknown} err */
const sentence = (err) => words(err).replace(/\.?$/, ".");

/** Reports whether a channel refuses a login, or does not exist. Other failures are temporary, or not of the channel. @param {unknown} err */
const isRefused = (err) => err instanceof Failure && err.body?.code === "conda.channel" && (err.status === 400 || err.status === 403);

/**
 * Reads a channel with a stored login, and deletes the login if the channel refuses it.
 * @param {Channel} channel
 * @param {number} space
 * @returns {Promise<Result>}
 */
async function test({ id, address }, space) {
  const read = () => call("GET", `v1alpha1/conda/packages?max=1&channel=${encodeURIComponent(address)}${within(space, "&")}`);
  try {
    await read().catch(async (err) => {
      if (!isRefused(err)) throw err;
      await new Promise((done) => setTimeout(done, 2000)); // another replica may see the new login with a delay
      await read();
    });
  } catch (err) {
    if (!isRefused(err)) return { title: "The login is stored, but could not be tested", bad: sentence(err), untested: { id, address } };
    try {
      await call("DELETE", `api/credentials/${id}${within(space)}`);
    } catch (failed) {
      return { title: "The login is stored, but cannot be used", bad: `${sentence(err)} It could not be removed: ${sentence(failed)} Remove it above.` };
    }
    return { bad: `The channel cannot be read with this login. ${sentence(err)}` };
  }
  return { good: `The channel ${address} can be read with this login stored. It is stored encrypted and used when ${space ? "a participant of the workspace builds" : "you search and build"}.` };
}

/**
 * Tests a login, and stores it unless it is refused.
 * @param {Given} given
 * @param {string} way how a channel authenticates
 * @param {number} space
 * @returns {Promise<Result>}
 */
async function add(given, way, space) {
  const at = bare(given.registry);
  if (given.provider === "container-reg") {
    if (!(await call("POST", "v1alpha2/validate-creds", { body: { userName: given.userName, password: given.password, registry: at } }))) return { bad: `${at} does not accept this login.` };
    await keep(given, space);
    return { good: `${at} accepts this login. It is stored encrypted and used when you pull or build.` };
  }
  const bad = mistake(given, way);
  if (bad) return { bad };
  const scheme = /^[a-z]+:\/\//i.exec(given.registry)?.[0] ?? "https://";
  return test({ id: await keep(given, space), address: scheme + at }, space);
}

/** @param {{id: string, title: string, type?: string, example?: string, name: string}} props */
function Field({ id, title, type = "text", example, name }) {
  return html`<p><label for=${id}>${title}</label><input id=${id} class="typed" name=${name} type=${type} autocomplete=${type === "password" ? "new-password" : "off"} autocapitalize="none"
    spellcheck=${false} placeholder=${example} required /></p>`;
}

/** @param {{space: number, again: () => void}} props */
function Add({ space, again }) {
  const [provider, choose] = useState("container-reg");
  const [way, show] = useState("bearer");
  const [said, say] = useState(/** @type {Result} */ ({}));
  const [busy, be] = useState(false);
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  const channel = provider === "conda";
  /** Shows the result of a test. @param {() => Promise<Result>} act */
  const run = async (act) => {
    be(true);
    say({});
    try {
      say(await act());
      again();
    } catch (err) {
      say({ bad: words(err) });
    }
    be(false);
  };
  /** @param {Event} e */
  const submit = (e) => {
    e.preventDefault();
    if (!form.current) return;
    const of = new FormData(form.current);
    const text = (/** @type {string} */ name) => String(of.get(name) ?? "").trim();
    void run(async () => {
      const result = await add({ provider, registry: text("registry"), userName: channel && way ? way : text("user"), password: text("password") }, channel ? way : "", space);
      if (!result.bad || result.title) form.current?.querySelectorAll(".typed").forEach((/** @type {any} */ field) => (field.value = ""));
      return result;
    });
  };
  /** Tests a stored login again. @param {Channel} login */
  const retry = (login) => run(async () => {
    await call("GET", `api/credentials/${login.id}${within(space)}`); // it may have been removed
    return test(login, space);
  });
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
    ${said.bad && html`<div class="failed" role="alert"><h2>${said.title ?? "The login was not stored"}</h2><p class="why"><${Told} text=${said.bad} /></p>
      ${said.untested && html`<p>It is used from now on. Test it again later, or remove it above if it may be wrong.</p>
        <p><button type="button" class="small" disabled=${busy} onClick=${() => said.untested && retry(said.untested)}>Test it again</button></p>`}</div>`}
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
        <p class="note">${[kinds[l.provider] ?? l.provider, identity(l), l.lastUsed ? `last used ${moment(l.lastUsed)}` : "never used"].filter(Boolean).join(" · ")}</p></div>
        <${Sure} label="Remove" what=${l.keys?.registry || l.name} act=${async () => {
          await call("DELETE", `api/credentials/${l.id}${within(space)}`);
          list.again();
        }} /></li>`)}</ul>`}</section>
    <section><h2>Add a login</h2><${Add} key=${space} space=${space} again=${list.again} /></section>`;
}
