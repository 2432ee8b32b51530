// The session of this browser. Its access token is in a cookie that scripts cannot read. What the tabs share here is
// only a mark of the session, without secrets.
import { signal } from "@preact/signals";

const key = "slipway-session";

function read() {
  try {
    return localStorage.getItem(key) ?? "";
  } catch { // storage is disabled
    return "";
  }
}

/** The mark of the session, which differs for each sign-in; "" if no user is signed in. */
export const session = signal(read());

/** The number of calls that were rejected, which may mean that the session has ended. */
export const rejected = signal(0);

/** Follows sign-ins and sign-outs in other tabs. */
function follow() {
  const now = read();
  if (now === session.peek()) return;
  if (!session.peek()) {
    session.value = now;
    return;
  }
  forgetTab();
  location.reload(); // the new document shows nothing of the former user
}

addEventListener("storage", (event) => {
  if (event.key === key || event.key === null) follow();
});

// A page that Back shows again as it was left has the session of that time.
addEventListener("pageshow", (event) => {
  if (event.persisted) follow();
});

/** The id of the session's token; undefined if it is unknown. @returns {number | undefined} */
export function own() {
  try {
    return JSON.parse(session.peek()).tokenId;
  } catch {
    return undefined;
  }
}

/** Marks that a session has begun. @param {number} [tokenId] */
export function begin(tokenId) {
  const mark = JSON.stringify({ tokenId, begun: new Date().toISOString() });
  try {
    localStorage.setItem(key, mark);
  } catch { /* then the session lasts as long as the page */ }
  session.value = mark;
}

/** Where the latest requests of this browser are stored: see recent.js. */
export const recentKey = "slipway-recent";

export function forgetRecent() {
  try {
    localStorage.removeItem(recentKey);
  } catch { /* nothing was stored */ }
}

function forgetTab() {
  try {
    sessionStorage.clear();
  } catch { /* nothing was stored */ }
}

/** Deletes the mark and all that was stored with it. */
export function end() {
  forgetRecent();
  forgetTab();
  try {
    localStorage.removeItem(key);
  } catch { /* nothing was stored */ }
  session.value = "";
}
