// A view that is fetched when it is asked for.
import { useEffect, useState } from "preact/hooks";
import { html } from "./html.js";

/**
 * @param {{load: () => Promise<{View: any}>} & Record<string, any>} props those but load are the
 *   view's own
 */
export function Later({ load, ...own }) {
  const [made, set] = useState(/** @type {{View: any} | undefined} */ (undefined));
  const [problem, say] = useState(false);
  useEffect(() => {
    load().then(set, () => say(true));
  }, []);
  if (problem) return html`<div class="failed" role="alert"><h2>This page did not arrive</h2><p class="why">Check your connection, and load it again.</p></div>`;
  return made ? html`<${made.View} ...${own} />` : html`<p class="note" role="status">One moment…</p>`;
}
