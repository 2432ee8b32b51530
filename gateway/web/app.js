// Which view an address is.
import { render } from "preact";
import { html } from "./html.js";
import { root } from "./api.js";
import { Build } from "./build.js";
import { Container } from "./container.js";
import { Home } from "./home.js";
import { Inspect } from "./inspect.js";

const page = /** @type {HTMLElement} */ (document.getElementById("page"));
const at = location.pathname.slice(root.pathname.length);
const build = /^view\/builds\/([0-9a-f]{16}_\d+)$/.exec(at);
const container = /^view\/containers\/([a-z2-7]{26})$/.exec(at);
render(container ? html`<${Container} id=${container[1]} />` : build ? html`<${Build} id=${build[1]} />` : at === "view/inspect" ? html`<${Inspect} />` : html`<${Home} />`, page);
