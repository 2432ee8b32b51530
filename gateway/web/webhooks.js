// Addresses to which events are sent, and the messages that were sent to them.
import { useState } from "preact/hooks";
import { call, words } from "./api.js";
import { Copied } from "./copy.js";
import { html, moment } from "./html.js";
import { Pager, Sure, useAgain, useLoad, Waiting } from "./load.js";
import { Spaces, useSpace, within } from "./space.js";
import { Told } from "./told.js";

/** @typedef {{id: string, url: string, events: string[], createdBy: string | null, disabled: boolean, disabledReason: string | null, failingSince: string | null}} Hook */
/** @typedef {{id: string, type: string, subject: string, status: string, attempts: number, dateCreated: string, nextAttempt: string | null, problem: string | null}} Delivery */

/** The choices for a new webhook. @type {[events: string[], title: string][]} */
const choices = [
  [["*"], "all events"],
  [["build.*"], "builds: started, succeeded, failed, verified"],
  [["mirror.*"], "mirrors: started, succeeded, failed"],
  [["build.failed", "build.verification_failed", "mirror.failed", "container.failed"], "failures"],
  [["container.*"], "containers: ready, failed, patched"],
];

const most = 20;

/** @param {Delivery} d */
const state = (d) => d.status === "DELIVERED" ? "delivered" : d.status === "FAILED" ? "failed" : d.nextAttempt ? `next attempt ${moment(d.nextAttempt)}` : "waits";

/** @param {{hook: Hook, space: number}} props */
function Deliveries({ hook, space }) {
  const [offset, go] = useState(0);
  const [problem, say] = useState("");
  const at = `api/webhooks/${hook.id}`;
  const list = useLoad((signal) => call("GET", `${at}/deliveries?max=${most}&offset=${offset}${within(space, "&")}`, { signal }), [at, offset]);
  /** @type {Delivery[]} */
  const all = list.value?.deliveries ?? [];
  useAgain(list.again, all.some((d) => d.status === "PENDING") ? 3000 : 0);
  /** @param {string} path */
  const post = async (path) => {
    say("");
    try {
      await call("POST", `${at}/${path}${within(space)}`);
      list.again();
    } catch (err) {
      say(words(err));
    }
  };
  return html`<p><button type="button" class="small" disabled=${hook.disabled} onClick=${() => post("test")}>Send a test</button></p>
    ${problem && html`<p class="note problem" role="alert"><${Told} text=${problem} /></p>`}
    <${Waiting} of=${list} what="The messages" />
    ${list.value && !all.length && html`<p class="empty">No messages within the last 7 days.</p>`}
    ${all.length > 0 && html`<ul class="rows">${all.map((d) => html`<li key=${d.id}><div class="what"><strong>${d.type}</strong>
      <p class="note">${[moment(d.dateCreated), d.type.startsWith("webhook.") ? "" : d.subject, state(d), d.attempts > 1 ? `${d.attempts} attempts` : "", d.problem].filter(Boolean).join(" · ")}</p></div>
      ${d.status !== "PENDING" && html`<button type="button" class="small" disabled=${hook.disabled} onClick=${() => post(`deliveries/${d.id}/repeat`)}>Send again<span class="unseen"> ${d.type}</span></button>`}</li>`)}</ul>`}
    <${Pager} offset=${offset} most=${most} total=${list.value?.totalSize ?? 0} go=${go} what="messages" />`;
}

/** @param {{hook: Hook, space: number, again: () => void, made: (url: string, secret: string) => void}} props */
function One({ hook, space, again, made }) {
  const [open, set] = useState(false);
  const [problem, say] = useState("");
  const at = `api/webhooks/${hook.id}${within(space)}`;
  /** @param {object} body */
  const change = async (body) => {
    say("");
    try {
      const { secret } = await call("PUT", at, { body });
      if (secret) made(hook.url, secret);
      again();
    } catch (err) {
      say(words(err));
    }
  };
  const status = hook.disabled ? "disabled" : hook.failingSince ? `failing since ${moment(hook.failingSince)}` : "";
  return html`<li><div class="what"><strong>${hook.url}</strong>
      <p class="note">${[hook.events.join(", ").replace(/^\*$/, "all events"), hook.createdBy && `created by ${hook.createdBy}`, status].filter(Boolean).join(" · ")}</p>
      ${hook.disabledReason && html`<p class="note problem">${hook.disabledReason}</p>`}
      ${problem && html`<p class="note problem" role="alert"><${Told} text=${problem} /></p>`}</div>
    <span class="aside"><button type="button" class="small" onClick=${() => change({ disabled: !hook.disabled })}>${hook.disabled ? "Enable" : "Disable"}<span class="unseen"> ${hook.url}</span></button>
      <${Sure} label="New secret" what=${`for ${hook.url}`} act=${() => change({ newSecret: true })} />
      <${Sure} label="Delete" what=${hook.url} act=${async () => {
        await call("DELETE", at);
        again();
      }} /></span>
    <details onToggle=${(/** @type {any} */ e) => set(e.currentTarget.open)}><summary>Messages<span class="unseen"> to ${hook.url}</span></summary>
      ${open && html`<${Deliveries} hook=${hook} space=${space} />`}</details></li>`;
}

/** @param {{space: number, made: (url: string, secret: string) => void}} props */
function Create({ space, made }) {
  const [url, type] = useState("");
  const [chosen, choose] = useState(0);
  const [problem, say] = useState("");
  return html`<form class="fields row" onSubmit=${async (/** @type {Event} */ e) => {
    e.preventDefault();
    say("");
    try {
      const { webhook, secret } = await call("POST", `api/webhooks${within(space)}`, { body: { url: url.trim(), events: choices[chosen][0] } });
      type("");
      made(webhook.url, secret);
    } catch (err) {
      say(words(err));
    }
  }}><p><label for="url">URL</label><input id="url" type="url" maxlength="2000" autocomplete="off" placeholder="https://hooks.example.org/slipway" value=${url} required
      onInput=${(/** @type {any} */ e) => type(e.currentTarget.value)} /></p>
    <p><label for="events">Events</label><select id="events" value=${chosen} onChange=${(/** @type {any} */ e) => choose(Number(e.currentTarget.value))}>
      ${choices.map(([, title], n) => html`<option key=${title} value=${n}>${title}</option>`)}</select></p>
    <p><button class="button" disabled=${!url.trim()}>Create</button></p>
    ${problem && html`<p class="note problem" role="alert"><${Told} text=${problem} /></p>`}</form>`;
}

/** The webhooks of one workspace. @param {{space: number}} props */
function Hooks({ space }) {
  const [made, show] = useState(/** @type {{url: string, secret: string} | undefined} */ (undefined));
  const list = useLoad((signal) => call("GET", `api/webhooks${within(space)}`, { signal }), [space]);
  /** @type {Hook[]} */
  const hooks = list.value?.webhooks ?? [];
  const shown = (/** @type {string} */ url, /** @type {string} */ secret) => {
    show({ url, secret });
    list.again();
  };
  return html`<section id="webhooks"><h2>Webhooks</h2><${Waiting} of=${list} what="The webhooks" />
      ${list.value && !hooks.length && html`<p class="empty">None yet.</p>`}
      ${hooks.length > 0 && html`<ul class="rows">${hooks.map((h) => html`<${One} key=${h.id} hook=${h} space=${space} again=${list.again} made=${shown} />`)}</ul>`}
      ${made && html`<section class="result" role="status"><h3>The secret for ${made.url}</h3><${Copied} large text=${made.secret} what="the secret" />
        <p class="note">The receiver verifies messages with it. Copy it now: it is shown only once.</p></section>`}</section>
    <section><h2>New webhook</h2><${Create} space=${space} made=${shown} /></section>`;
}

export function View() {
  const [space, choose] = useSpace();
  return html`<h1>Webhooks</h1>
    <p class="lead">Addresses to which the events of your builds and containers are sent, as signed messages.</p>
    <${Spaces} id=${space} choose=${choose} />
    <${Hooks} key=${space} space=${space} />`;
}
