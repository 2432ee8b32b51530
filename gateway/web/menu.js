// The account menu in the page header.
import { useEffect, useRef, useState } from "preact/hooks";
import { root, words } from "./api.js";
import { html } from "./html.js";
import { leave, me } from "./me.js";
import { session } from "./session.js";

/** The views of a signed-in user. @type {[path: string, title: string][]} */
export const places = [["view/containers", "Containers"], ["view/mine", "Builds"], ["view/runs", "Runs"], ["view/tokens", "Tokens"], ["view/logins", "Logins"], ["view/webhooks", "Webhooks"], ["view/workspaces", "Workspaces"]];

export function Menu() {
  const [open, turn] = useState(false);
  const [problem, say] = useState("");
  const all = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (!open) return undefined;
    /** @param {Event} e */
    const away = (e) => all.current?.contains(/** @type {Node} */ (e.target)) || turn(false);
    for (const kind of ["pointerdown", "focusin"]) document.addEventListener(kind, away);
    return () => {
      for (const kind of ["pointerdown", "focusin"]) document.removeEventListener(kind, away);
    };
  }, [open]);
  if (!session.value) return html`<a href=${new URL("login", root).href}>Sign in</a>`;
  return html`<div class="menu" ref=${all} onKeyDown=${(/** @type {KeyboardEvent} */ e) => {
    if (e.key !== "Escape" || !open) return;
    turn(false);
    all.current?.querySelector("button")?.focus();
  }}>
    <button type="button" aria-expanded=${open} aria-controls="menu" onClick=${() => turn(!open)}>${me.value?.userName ?? "Account"}</button>
    <ul id="menu" hidden=${!open}>
      ${places.map(([path, title]) => html`<li key=${path}><a href=${new URL(path, root).href}>${title}</a></li>`)}
      <li><button type="button" onClick=${() => leave().catch((err) => say(words(err)))}>Sign out</button>
        ${problem && html`<p class="note problem" role="alert">You are still signed in. ${problem}</p>`}</li>
    </ul>
  </div>`;
}
