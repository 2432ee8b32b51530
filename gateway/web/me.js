// Who is signed in, as the server knows them.
import { signal } from "@preact/signals";
import { call, Failure, root, words } from "./api.js";
import { end, own, token } from "./session.js";

/** @typedef {{id: number, userName: string, email: string}} Me */

/** Who it is; undefined until that is known. */
export const me = signal(/** @type {Me | undefined} */ (undefined));

/** Why somebody is signed in no more, though they did not sign out. */
export const thrown = signal("");

/** Why it is not known who it is. */
export const unsure = signal("");

token.subscribe(ask);

/** Asks the server who it is. @param {string} now the token */
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

/** Forgets who is signed in; a token that this page made is revoked. */
export async function leave() {
  const id = own();
  if (id) await call("DELETE", `api/tokens/${id}`).catch(() => undefined); // else it expires by itself
  end();
  location.assign(root); // what was shown goes with the document
}
