// Sign-in at the organisation's identity provider: an authorization code with PKCE, as native
// programs use it. The code in the returned address is useless outside this tab.
import { call, Failure, root } from "./api.js";
import { begin } from "./session.js";

const kept = "slipway-sign-in";
const client = "web page";
const landing = () => new URL("login", root).href;

/** @param {Uint8Array} bytes base64url */
function text(bytes) {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

const random = () => text(crypto.getRandomValues(new Uint8Array(32)));

/**
 * Redirects to the identity provider.
 * @param {string} api the platform's address, to which the provider redirects
 * @param {string} back the address to return to; "" is the first page
 */
export async function depart(api, back) {
  if (!crypto.subtle) throw new Failure(0, "Browsers support this sign-in over https only. Use the https address of this service, or an access token.", undefined);
  const verifier = random(), state = random();
  const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier)));
  sessionStorage.setItem(kept, JSON.stringify({ verifier, state, back }));
  location.assign(`${api}/oauth/oidc?${new URLSearchParams({
    client_id: client, redirect_uri: landing(), state, code_challenge: text(sum), code_challenge_method: "S256",
  })}`);
}

/** Reports whether the provider has just redirected to this page. */
export const wayBack = () => new URLSearchParams(location.search).has("code");

/**
 * Begins a session with the code. Returns the address to return to; "" is the first page.
 * @returns {Promise<string>}
 */
export async function comeBack() {
  const said = new URLSearchParams(location.search);
  history.replaceState(null, "", location.pathname);
  const { verifier, state, back } = JSON.parse(sessionStorage.getItem(kept) ?? "{}");
  sessionStorage.removeItem(kept);
  if (!state || state !== said.get("state")) throw new Failure(0, "This sign-in was not started in this tab. Start again.", undefined);
  const { tokenId } = await call("POST", "session", { body: { code: said.get("code") ?? "", codeVerifier: verifier, redirectUri: landing() } });
  begin(tokenId);
  return back;
}
