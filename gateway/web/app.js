// Selects the view for the page's address.
import { render } from "preact";
import { html } from "./html.js";
import { root } from "./api.js";
import { Later } from "./later.js";
import { Menu } from "./menu.js";
import { Build } from "./build.js";
import { Container } from "./container.js";
import { Home } from "./home.js";
import { Inspect } from "./inspect.js";
import { token } from "./session.js";

const page = /** @type {HTMLElement} */ (document.getElementById("page"));
const at = location.pathname.slice(root.pathname.length);
const build = /^view\/(builds|mirrors)\/([0-9a-f]{16}_\d+)$/.exec(at);
const container = /^view\/containers\/([a-z2-7]{26}|[0-9a-f]{64})$/.exec(at);
const catalog = /^c(?:\/([0-9a-f]{16}))?(?:\/|$)/.exec(at);
const scan = /^view\/scans\/(sc-[0-9a-f]{16}_\d+)$/.exec(at);
const signed = container ? token.peek() && container[1].length === 64 : /^(login$|view\/(containers|mine|runs|tokens|logins|webhooks|workspaces|service|admin\/limits)$|user\/|orgs\/)/.test(at);
const account = /** @type {HTMLElement} */ (document.getElementById("account"));
account.replaceChildren(); // removes the fallback for browsers without JavaScript
render(html`<${Menu} />`, account);
render(signed ? html`<${Later} at=${at} load=${() => import("./account.js")} />` : container ? html`<${Container} id=${container[1]} />` : build ? html`<${Build} id=${build[2]} mirror=${build[1] === "mirrors"} />` : scan ? html`<${Later} load=${() => import("./scan.js")} id=${scan[1]} />` : catalog ? html`<${Later} load=${() => catalog[1] ? import("./catalogimage.js") : import("./catalog.js")} id=${catalog[1]} />` : at === "view/inspect" ? html`<${Inspect} />` : html`<${Home} />`, page);
