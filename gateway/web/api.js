// The client of the public REST API. The page uses no other calls.
import { rejected, session } from "./session.js";

/** The root URL of the site, including any path prefix that a proxy adds. */
export const root = new URL("../../", import.meta.url);

/** A failed call, with a message for the user. */
export class Failure extends Error {
  /**
   * @param {number} status the HTTP status; 0 if there was no response
   * @param {string} message
   * @param {any} body the decoded JSON response, if there is one
   */
  constructor(status, message, body) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

/** The longest Retry-After, in seconds, after which a GET is retried automatically, and how often. */
const soon = 3, most = 3;

/**
 * Calls the API as the signed-in user and returns the decoded response, or undefined if the
 * response is empty.
 * @param {string} method
 * @param {string} path relative to the root, without a slash before it
 * @param {{body?: object, signal?: AbortSignal, retries?: number, text?: boolean}} [more] retries counts earlier
 *   attempts; text returns the response as it is
 * @returns {Promise<any>}
 */
export async function call(method, path, { body, signal, retries = 0, text = false } = {}) {
  const own = session.peek() || path === "session"; // the server ignores the cookie without the header
  /** @type {Response} */
  let response;
  try {
    response = await fetch(new URL(path, root), {
      method,
      signal,
      credentials: own ? "same-origin" : "omit",
      headers: { ...(body && { "Content-Type": "application/json" }), ...(own && { "Slipway-Page": location.origin }) },
      body: body && JSON.stringify(body),
    });
  } catch (err) {
    if (signal?.aborted) throw err;
    throw new Failure(0, "The service does not respond. Check your connection, and try again.", undefined);
  }
  if (response.status === 204) return undefined;
  if (text && response.ok) return response.text();
  const answer = await response.json().catch(() => undefined);
  signal?.throwIfAborted(); // also while the response was read
  if (response.ok && answer !== undefined) return answer;
  const wait = Number(response.headers.get("Retry-After"));
  if (response.status === 429 && method === "GET" && wait > 0 && wait <= soon && retries < most) {
    await new Promise((done) => setTimeout(done, wait * 1000));
    signal?.throwIfAborted();
    return call(method, path, { body, signal, text, retries: retries + 1 });
  }
  if (session.peek() && path !== "session" && isRejection(response.status)) rejected.value += 1;
  throw new Failure(response.status, reasonOf(response.status, answer?.message, wait), answer);
}

/** Earlier results, so that typing backwards needs no further call. */
const found = new Map();
session.subscribe(() => found.clear()); // another user may get other results

/**
 * A cached GET, for results that hardly change while the page is open; calls count against the
 * rate limit.
 * @param {string} path
 * @param {AbortSignal} [signal]
 */
export async function look(path, signal) {
  if (!found.has(path)) found.set(path, await call("GET", path, { signal }));
  return found.get(path);
}

/**
 * @param {number} status
 * @param {string | undefined} message
 * @param {number} wait seconds
 */
function reasonOf(status, message, wait) {
  const said = message || `The service responded with the status ${status}.`;
  return wait > 0 ? `${said.replace(/[.]?$/, ".")} Try again in ${wait === 1 ? "a second" : `${wait} seconds`}.` : said;
}

/** Reports whether a status may mean that the session has ended. @param {number} status */
export const isRejection = (status) => status === 401 || status === 403;

/** Reports whether a call was cancelled because its result is no longer needed. @param {unknown} err */
export function isAborted(err) {
  return err instanceof DOMException && err.name === "AbortError";
}

/** @param {unknown} err */
export function words(err) {
  return err instanceof Failure ? err.message : "This page has an internal error. Reload it.";
}

/** The page of a build. @param {string} id */
export function buildPage(id) {
  return new URL(`view/builds/${encodeURIComponent(id)}`, root).href;
}

/** The page of a request. @param {string} id */
export function containerPage(id) {
  return new URL(`view/containers/${encodeURIComponent(id)}`, root).href;
}

/** The page of a kept image. @param {string} id */
export function catalogPage(id) {
  return new URL(`c/${encodeURIComponent(id)}`, root).href;
}

/** The page of a scan. @param {string} id */
export function scanPage(id) {
  return new URL(`view/scans/${encodeURIComponent(id)}`, root).href;
}

/** Encodes content in base64, as recipes and files are sent. @param {string | Uint8Array} content */
export function base64(content) {
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  let raw = "";
  for (let i = 0; i < bytes.length; i += 8192) raw += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(raw);
}
