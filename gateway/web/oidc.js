// Sign-in at the organisation's identity provider: an authorization code with PKCE, as native
// programs use it. The code in the returned address is useless outside this tab.
import { call, Failure, root } from "./api.js";

const kept = "slipway-sign-in";
const client = "web page";
const landing = () => new URL("login", root).href;

/** The lifetime of this page's token in milliseconds, long enough for a working day. */
const life = 12 * 60 * 60 * 1000;

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
 * Exchanges the code for an access token of this page, which signing out revokes.
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
  await call("DELETE", `api/tokens/${sessionOf(first)}`, { as: first }); // the session was needed only to create the token
  return { token: accessKey, id: token.id, back };
}

/** @param {string} jwt */
function sessionOf(jwt) {
  return JSON.parse(atob(jwt.split(".")[1].replaceAll("-", "+").replaceAll("_", "/"))).sid;
}
