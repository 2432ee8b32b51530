// Sign-in at the organisation's identity provider, or with an access token.
import { useEffect, useRef, useState } from "preact/hooks";
import { call, root, words } from "./api.js";
import { html } from "./html.js";
import { thrown } from "./me.js";
import { comeBack, depart, wayBack } from "./oidc.js";
import { begin, session } from "./session.js";
import { Told } from "./told.js";

/** Reports whether this is the sign-in page itself, and not a page that requires sign-in. */
const here = () => location.pathname === new URL("login", root).pathname;

/** @param {{go: () => void}} props */
function WithToken({ go }) {
  const [problem, say] = useState("");
  const [busy, be] = useState(false);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  /** @param {Event} e */
  const check = async (e) => {
    e.preventDefault();
    const token = field.current?.value.trim() ?? "";
    be(true);
    say("");
    try {
      if (!token) throw new SyntaxError();
      const { tokenId } = await call("POST", "session", { body: { token } });
      begin(tokenId);
      go();
    } catch (err) {
      say(err instanceof SyntaxError || err instanceof TypeError ? "Paste your access token first." : words(err));
      field.current?.focus();
    }
    be(false);
  };
  return html`<form class="fields" onSubmit=${check}>
    <label for="token">Access token</label>
    <input id="token" type="password" ref=${field} autocomplete="off" autocapitalize="none" spellcheck=${false} aria-describedby="token-note" aria-invalid=${!!problem} />
    <p class="note" id="token-note"><code>slipway tokens create</code> creates a token; <a href=${new URL("docs/guide/accounts", root).href}>where to get the first</a>.
      You stay signed in for 12 hours in all tabs of this browser, or until you sign out.</p>
    ${problem && html`<p class="note problem" role="alert"><${Told} text=${problem} /></p>`}
    <p><button class="button" disabled=${busy}>${busy ? "Checking…" : "Sign in"}</button></p>
  </form>`;
}

/** The name of the identity provider. */
const providerName = () => document.querySelector("meta[name=slipway-provider]")?.getAttribute("content");

/** Sign-in at the identity provider. @param {{at: string}} props */
function Elsewhere({ at }) {
  const [problem, say] = useState("");
  return html`<section class="elsewhere" aria-label=${`With ${providerName()}`}>
    <p><button type="button" class="button" onClick=${() => depart(at, here() ? "" : location.href).catch((err) => say(words(err)))}>Sign in with ${providerName()}</button></p>
    <p class="note">You go to its sign-in and come back here.</p>
    ${problem && html`<p class="note problem" role="alert"><${Told} text=${problem} /></p>`}</section>`;
}

export function View() {
  const [problem, say] = useState("");
  const [busy, be] = useState(() => here() && wayBack());
  /** The address of the sign-in at the identity provider, "" without one, and undefined until it is known. */
  const [provider, tell] = useState(/** @type {string | undefined} */ (undefined));
  const go = (back = "") => {
    if (here()) location.replace(back || root);
  };
  useEffect(() => {
    if (here()) document.title = "Sign in · Slipway";
    call("GET", "api/service-info").then(({ serviceInfo: s }) => tell(s.authTypes?.includes("oidc") ? s.apiUrl : ""), (err) => (tell(""), say(words(err))));
    if (busy) comeBack().then(go, (err) => (say(words(err)), be(false)));
  }, []);
  const now = session.value;
  useEffect(() => {
    if (now && !busy) go(); // in another tab
  }, [now]);
  if (busy) return html`<h1>Sign in</h1><p role="status">Signing you in…</p>`;
  const why = problem || thrown.value;
  return html`<h1>Sign in</h1>
    <p class="lead">${here() ? "For your runs, builds, tokens and logins. Containers can be made without signing in." : "This page is for signed-in users."}</p>
    ${why && html`<div class="failed" role="alert"><h2>${problem ? "You are not signed in" : "You were signed out"}</h2><p class="why"><${Told} text=${why} /></p></div>`}
    ${provider && html`<${Elsewhere} key="provider" at=${provider} />`}
    <section key="token">${provider && html`<h2>Or use an access token</h2>`}<${WithToken} key="form" go=${go} /></section>`;
}
