// A segmented control.
import { html } from "./html.js";

/**
 * A choice between a few options.
 * @param {{title: string, name: string, value: string, choose: (value: string) => void, options: [value: string, title: string, off?: boolean][]}} props
 */
export function Choice({ title, name, value: chosen, choose, options }) {
  return html`<fieldset class="choice"><legend>${title}</legend>
    ${options.map(([value, label, off]) => html`<label key=${value}><input type="radio" name=${name} value=${value} checked=${chosen === value}
      disabled=${!!off} onChange=${() => choose(value)} /><span>${label}</span></label>`)}
  </fieldset>`;
}
