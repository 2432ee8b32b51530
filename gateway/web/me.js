// The signed-in user, as the server reports it.
import { signal } from "@preact/signals";
import { call, Failure, root, words } from "./api.js";
import { end, own, token } from "./session.js";

/** @typedef {{id: number, userName: string, email: string}} Me */

/** The signed-in user; undefined until it is known. */
export const me = signal(/** @type {Me | undefined} */ (undefined));

/** Why the session ended without a sign-out. */
export const thrown = signal("");

/** Why the user could not be determined. */
export const unsure = signal("");

token.subscribe(ask);

/** Asks the server for the user of a token. @param {string} now the token */
export async function ask(now) {
  me.value = undefined;
  unsure.value = "";
  if (!now) return;
  thrown.value = "";
  try {
    const { user } = await call("GET", "api/user-info");
    if (token.peek() === now) me.value = user;
  } catch (err) {
    if (token.peek() !== now) return;
    if (err instanceof Failure && (err.status === 401 || err.status === 403)) {
      thrown.value = words(err);
      end();
    } else unsure.value = words(err);
  }
}

/** Signs out. A token that this page created is revoked. */
export async function leave() {
  const id = own();
  if (id) await call("DELETE", `api/tokens/${id}`).catch(() => undefined); // otherwise it expires
  end();
  location.assign(root); // the new document shows nothing of the old one
}
