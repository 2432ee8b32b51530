// A filter that is a row of buttons, each with the number of its entries.
import { html } from "./html.js";

/**
 * @param {{title: string, value: string, choose: (value: string) => void, options: [value: string, title: string, count?: number][]}} props
 */
export function Pills({ title, value: chosen, choose, options }) {
  return html`<div class="pills" role="group" aria-label=${title}>${options.map(([value, label, count]) => html`<button type="button" class="pill" key=${value}
    aria-pressed=${value === chosen} onClick=${() => choose(value)}>${label}${count !== undefined && html` <span class="count">${count.toLocaleString()}</span>`}</button>`)}</div>`;
}
