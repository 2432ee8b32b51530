// Which view an address is.
import { render } from "preact";
import { html } from "./html.js";
import { root } from "./api.js";
import { Build } from "./build.js";
import { Home } from "./home.js";

const page = /** @type {HTMLElement} */ (document.getElementById("page"));
const build = /^view\/builds\/([0-9a-f]{16}_\d+)$/.exec(location.pathname.slice(root.pathname.length));
render(build ? html`<${Build} id=${build[1]} />` : html`<${Home} />`, page);
