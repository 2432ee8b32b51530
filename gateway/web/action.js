// A button for an action that takes some time.
import { useState } from "preact/hooks";
import { words } from "./api.js";
import { html } from "./html.js";
import { Told } from "./told.js";

/** Shows the error if the action fails. @param {{title: string, plain?: boolean, act: () => Promise<any>}} props */
export function Action({ title, plain, act }) {
  const [problem, say] = useState("");
  const [busy, wait] = useState(false);
  return html`<button type="button" class=${plain ? "pill" : "button"} disabled=${busy} onClick=${async () => {
    say("");
    wait(true);
    await act().catch((err) => say(words(err)));
    wait(false);
  }}>${title}</button>${problem && html`<p class="note problem" role="alert"><${Told} text=${problem} /></p>`}`;
}
