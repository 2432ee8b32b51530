// A view whose code is loaded on demand.
import { useEffect, useState } from "preact/hooks";
import { html } from "./html.js";

/**
 * @param {{load: () => Promise<{View: any}>} & Record<string, any>} props all but load are
 *   passed to the view
 */
export function Later({ load, ...own }) {
  const [made, set] = useState(/** @type {{View: any} | undefined} */ (undefined));
  const [problem, say] = useState(false);
  useEffect(() => {
    load().then(set, () => say(true));
  }, []);
  if (problem) return html`<div class="failed" role="alert"><h2>This page could not be loaded</h2><p class="why">Check your connection, and reload the page.</p></div>`;
  return made ? html`<${made.View} ...${own} />` : html`<p class="note" role="status">One moment…</p>`;
}
