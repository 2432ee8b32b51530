// Sign-in with an access token or at the organisation's identity provider.
import { useEffect, useRef, useState } from "preact/hooks";
import { call, root, words } from "./api.js";
import { html } from "./html.js";
import { thrown } from "./me.js";
import { comeBack, depart, wayBack } from "./oidc.js";
import { begin } from "./session.js";

/** Reports whether this is the sign-in page itself, and not a page that requires sign-in. */
const here = () => location.pathname === new URL("login", root).pathname;

/** @param {{go: (session: import("./session.js").Session) => void}} props */
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
      await call("GET", "api/user-info", { as: token });
      go({ token });
    } catch (err) {
      say(err instanceof SyntaxError || err instanceof TypeError ? "Paste your access token first." : words(err));
      field.current?.focus();
    }
    be(false);
  };
  return html`<form class="fields" onSubmit=${check}>
    <label for="token">Access token</label>
    <input id="token" type="password" ref=${field} autocomplete="off" autocapitalize="none" spellcheck=${false} aria-describedby="token-note" aria-invalid=${!!problem} />
    <p class="note" id="token-note">It stays in this tab: closing it signs you out. <code>slipway tokens create</code> creates one; the administrator's first token is in the
      file <code>admin-token</code> in the server's data folder.</p>
    ${problem && html`<p class="note problem" role="alert">${problem}</p>`}
    <p><button class="button" disabled=${busy}>${busy ? "Checking…" : "Sign in"}</button></p>
  </form>`;
}

/** Sign-in at the identity provider, if one is configured. */
function Elsewhere() {
  const [at, tell] = useState("");
  const [problem, say] = useState("");
  useEffect(() => {
    call("GET", "api/service-info", { as: "" }).then(({ serviceInfo: s }) => tell(s.authTypes?.includes("oidc") ? s.apiUrl : ""), (err) => say(words(err)));
  }, []);
  if (problem) return html`<p class="note problem" role="alert">${problem}</p>`;
  if (!at) return null;
  return html`<section class="elsewhere"><h2>Or with your organisation's account</h2>
    <p class="note">You go to its sign-in and come back here.</p>
    <p><button type="button" class="button second" onClick=${() => depart(at, here() ? "" : location.href).catch((err) => say(words(err)))}>Continue there</button></p></section>`;
}

export function View() {
  const [problem, say] = useState("");
  const [busy, be] = useState(() => here() && wayBack());
  /** @param {import("./session.js").Session & {back?: string}} session */
  const go = ({ back, ...session }) => {
    begin(session);
    if (here()) location.replace(back || root);
  };
  useEffect(() => {
    if (here()) document.title = "Sign in · Slipway";
    if (busy) comeBack().then(go, (err) => (say(words(err)), be(false)));
  }, []);
  if (busy) return html`<h1>Sign in</h1><p role="status">Signing you in…</p>`;
  const why = problem || thrown.value;
  return html`<h1>Sign in</h1>
    <p class="lead">${here() ? "For your runs, builds, tokens and logins. Containers can be made without signing in." : "This page is for signed-in users."}</p>
    ${why && html`<div class="failed" role="alert"><h2>${problem ? "You are not signed in" : "You were signed out"}</h2><p class="why">${why}</p></div>`}
    <${WithToken} go=${go} /><${Elsewhere} />`;
}
