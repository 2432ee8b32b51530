// Selects the view for the page's address.
import { render } from "preact";
import { html } from "./html.js";
import { root } from "./api.js";
import { Later } from "./later.js";
import { Menu } from "./menu.js";
import { Home } from "./home.js";
import { session } from "./session.js";

const page = /** @type {HTMLElement} */ (document.getElementById("page"));
const at = location.pathname.slice(root.pathname.length);
const build = /^view\/(builds|mirrors)\/([0-9a-f]{16}_\d+)$/.exec(at);
const container = /^view\/containers\/([a-z2-7]{26}|[0-9a-f]{64})$/.exec(at);
const catalog = /^c(?:\/([0-9a-f]{16}|org-[a-z2-7]{26}))?(?:\/|$)/.exec(at);
const scan = /^view\/scans\/(sc-[0-9a-f]{16}_\d+)$/.exec(at);
const signed = container ? session.peek() && container[1].length === 64 : /^(login$|view\/(containers|mine|runs|tokens|logins|webhooks|workspaces|service|admin\/limits)$|user\/|orgs\/)/.test(at);

/** @returns {any} */
function view() {
  if (signed) return html`<${Later} at=${at} load=${() => import("./account.js")} />`;
  if (container) return html`<${Later} load=${() => import("./container.js")} id=${container[1]} />`;
  if (build) return html`<${Later} load=${() => import("./build.js")} id=${build[2]} mirror=${build[1] === "mirrors"} />`;
  if (scan) return html`<${Later} load=${() => import("./scan.js")} id=${scan[1]} />`;
  if (catalog?.[1]) return html`<${Later} load=${() => import("./catalogimage.js")} id=${catalog[1]} />`;
  if (catalog) return html`<${Later} load=${() => import("./catalog.js")} />`;
  if (at === "view/status") return html`<${Later} load=${() => import("./status.js")} />`;
  return at === "view/inspect" ? html`<${Later} load=${() => import("./inspect.js")} />` : html`<${Home} />`;
}

// The document of the first view contains the style that the form needs. The rest is loaded after the scripts.
if (!document.querySelector("link[rel=stylesheet]")) {
  const rest = document.createElement("link");
  rest.rel = "stylesheet";
  rest.href = new URL("style.css", import.meta.url).href;
  document.head.append(rest);
}

const account = /** @type {HTMLElement} */ (document.getElementById("account"));
account.replaceChildren(); // removes the fallback for browsers without JavaScript
render(html`<${Menu} />`, account);
page.replaceChildren(); // early.js has read the form
render(view(), page);
