// The signed-in user, as the server reports it.
import { signal } from "@preact/signals";
import { call, Failure, isRejection, root, words } from "./api.js";
import { end, rejected, session } from "./session.js";

/** @typedef {{id: number, userName: string, email: string}} Me */

/** The signed-in user; undefined until it is known. */
export const me = signal(/** @type {Me | undefined} */ (undefined));

/** Why the session ended without a sign-out. */
export const thrown = signal("");

/** Why the user could not be determined. */
export const unsure = signal("");

/** The pause between two checks of a session whose calls are rejected, in ms. */
const pause = 5000;
let checked = 0;
/** @type {number | undefined} */
let later;

session.subscribe(ask);
rejected.subscribe((count) => {
  if (!count || later) return;
  later = setTimeout(() => {
    later = undefined;
    if (session.peek()) void check();
  }, Math.max(0, checked + pause - Date.now()));
});

/** Asks the server for the user of the session. */
export async function ask() {
  me.value = undefined;
  unsure.value = "";
  if (!session.peek()) return;
  thrown.value = "";
  await check();
}

/** Ends the session if the server no longer accepts it. A call can also be rejected for other reasons. */
async function check() {
  const now = session.peek();
  checked = Date.now();
  try {
    const { user } = await call("GET", "api/user-info");
    if (session.peek() === now) me.value = user;
  } catch (err) {
    if (session.peek() !== now) return;
    if (err instanceof Failure && isRejection(err.status)) {
      thrown.value = "Your session has ended: it lasts for 12 hours, and ends with its access token. Sign in again.";
      end();
    } else if (!me.peek()) unsure.value = words(err);
  }
}

/** Signs out. A token that was created for this session is revoked. */
export async function leave() {
  await call("DELETE", "session");
  end();
  location.assign(root); // the new document shows nothing of the old one
}
