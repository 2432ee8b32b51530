// The session of this tab. The token is in no address, cookie or storage that outlives the tab.
import { signal } from "@preact/signals";

const kept = "slipway";

/**
 * A session: its access token and, if this page created the token, its id, so that signing out
 * can revoke it.
 * @typedef {{token: string, id?: number}} Session
 */

/** @returns {Session} */
function read() {
  try {
    const s = JSON.parse(sessionStorage.getItem(kept) ?? "");
    if (typeof s.token === "string") return s;
  } catch { /* nothing is stored, or storage is disabled */ }
  return { token: "" };
}

let now = read();

/** The access token; "" if no user is signed in. */
export const token = signal(now.token);

// A page that Back shows again as it was left has the session of that time.
addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  now = read();
  token.value = now.token;
});

/** The token's id, if this page created it. */
export const own = () => now.id;

/** @param {Session} s */
export function begin(s) {
  now = s;
  try {
    sessionStorage.setItem(kept, JSON.stringify(s));
  } catch { /* then the session lasts as long as the page */ }
  token.value = s.token;
}

/** Where the latest requests of this browser are stored: see recent.js. */
export const recentKey = "slipway-recent";

export function forgetRecent() {
  try {
    localStorage.removeItem(recentKey);
  } catch { /* nothing was stored */ }
}

/** Deletes the token and all that was stored with it. */
export function end() {
  now = { token: "" };
  forgetRecent();
  try {
    sessionStorage.clear();
  } catch { /* nothing was stored */ }
  token.value = "";
}
