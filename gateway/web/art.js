// The illustration of the first view and of the catalogue.
import { html } from "./html.js";

export function Art() {
  return html`<img class="art" src=${new URL("art.svg", import.meta.url).href} width="420" height="250" alt="" />`;
}
