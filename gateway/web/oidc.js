// Signing in at the organisation's provider: an authorization code with PKCE, as programs
// do it. What comes back in the address is a code that is worth nothing outside this tab.
import { call, Failure, root } from "./api.js";

const kept = "slipway-sign-in";
const client = "web page";
const landing = () => new URL("login", root).href;

/** How long a token of this page works, in milliseconds: a day's work. */
const life = 12 * 60 * 60 * 1000;

/** @param {Uint8Array} bytes base64url */
function text(bytes) {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

const random = () => text(crypto.getRandomValues(new Uint8Array(32)));

/**
 * Goes to the provider.
 * @param {string} api the platform's address, to which the provider sends people back
 * @param {string} back where to go afterwards; "" is the first page
 */
export async function depart(api, back) {
  if (!crypto.subtle) throw new Failure(0, "Browsers let a page do this over https only. Use the https address of this service, or an access token.", undefined);
  const verifier = random(), state = random();
  const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier)));
  sessionStorage.setItem(kept, JSON.stringify({ verifier, state, back }));
  location.assign(`${api}/oauth/oidc?${new URLSearchParams({
    client_id: client, redirect_uri: landing(), state, code_challenge: text(sum), code_challenge_method: "S256",
  })}`);
}

/** Whether this is somebody who comes back from the provider. */
export const wayBack = () => new URLSearchParams(location.search).has("code");

/**
 * Trades the code for a token of this page's own, which it revokes when one signs out.
 * @returns {Promise<{token: string, id: number, back: string}>}
 */
export async function comeBack() {
  const said = new URLSearchParams(location.search);
  history.replaceState(null, "", location.pathname);
  const { verifier, state, back } = JSON.parse(sessionStorage.getItem(kept) ?? "{}");
  sessionStorage.removeItem(kept);
  if (!state || state !== said.get("state")) throw new Failure(0, "This sign-in was not started in this tab. Start again.", undefined);
  const { access_token: first } = await call("POST", "api/oauth/access_token", { as: "", body: new URLSearchParams({
    grant_type: "authorization_code", code: said.get("code") ?? "", code_verifier: verifier, redirect_uri: landing(), client_id: client,
  }) });
  const now = Date.now();
  const { accessKey, token } = await call("POST", "api/tokens", { as: first, body: {
    name: `Web page ${new Date(now).toISOString()}`, expires: new Date(now + life).toISOString(),
  } });
  await call("DELETE", `api/tokens/${sessionOf(first)}`, { as: first }); // it has done its work
  return { token: accessKey, id: token.id, back };
}

/** @param {string} jwt */
function sessionOf(jwt) {
  return JSON.parse(atob(jwt.split(".")[1].replaceAll("-", "+").replaceAll("_", "/"))).sid;
}
