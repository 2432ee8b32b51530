// Who is signed in, in this tab alone: the token is in no address, no cookie, and no
// storage that outlives the tab.
import { signal } from "@preact/signals";

const kept = "slipway";

/**
 * A session: its access token, and the token's id where it was made for this page, which
 * then revokes it.
 * @typedef {{token: string, id?: number}} Session
 */

/** @returns {Session} */
function read() {
  try {
    const s = JSON.parse(sessionStorage.getItem(kept) ?? "");
    if (typeof s.token === "string") return s;
  } catch { /* there is none, or the browser keeps nothing */ }
  return { token: "" };
}

let now = read();

/** The access token; "" is nobody's. */
export const token = signal(now.token);

/** The token's id, where this page made it. */
export const own = () => now.id;

/** @param {Session} s */
export function begin(s) {
  now = s;
  try {
    sessionStorage.setItem(kept, JSON.stringify(s));
  } catch { /* then it lasts as long as the page */ }
  token.value = s.token;
}

/** Forgets the token; what was kept with it goes, too. */
export function end() {
  now = { token: "" };
  try {
    sessionStorage.clear();
  } catch { /* nothing was kept */ }
  token.value = "";
}
