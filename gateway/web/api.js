// The public REST API, as the page calls it. Nothing here is known to the page alone.
import { token } from "./session.js";

/** Where the site is, below whatever prefix a proxy gives it. */
export const root = new URL("../../", import.meta.url);

/** Why a call did not work, in words for people. */
export class Failure extends Error {
  /**
   * @param {number} status of HTTP; 0 where nothing answered
   * @param {string} message
   * @param {any} body what was answered, if it was JSON
   */
  constructor(status, message, body) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

/** How long a question waits by itself, in seconds, when there were too many. */
const soon = 3;

/**
 * Calls the API, as who is signed in, and returns what it answers; undefined where that
 * is nothing.
 * @param {string} method
 * @param {string} path relative to the root, without a slash before it
 * @param {{body?: object, signal?: AbortSignal, as?: string}} [more] body is sent as a form
 *   where it is one; as is a token to use in place of the session's
 * @returns {Promise<any>}
 */
export async function call(method, path, { body, signal, as = token.peek() } = {}) {
  const form = body instanceof URLSearchParams;
  /** @type {Response} */
  let response;
  try {
    response = await fetch(new URL(path, root), {
      method,
      signal,
      credentials: "omit",
      headers: { ...(body && !form && { "Content-Type": "application/json" }), ...(as && { Authorization: `Bearer ${as}` }) },
      body: form ? body : body && JSON.stringify(body),
    });
  } catch (err) {
    if (signal?.aborted) throw err;
    throw new Failure(0, "The service does not answer. Check your connection, and try again.", undefined);
  }
  if (response.status === 204) return undefined;
  const answer = await response.json().catch(() => undefined);
  if (response.ok && answer !== undefined) return answer;
  const wait = Number(response.headers.get("Retry-After"));
  if (response.status === 429 && method === "GET" && wait > 0 && wait <= soon) {
    await new Promise((done) => setTimeout(done, wait * 1000));
    signal?.throwIfAborted();
    return call(method, path, { body, signal, as });
  }
  throw new Failure(response.status, reasonOf(response.status, answer?.message, wait), answer);
}

/** What was found before, so that going back a letter asks nobody. */
const found = new Map();
token.subscribe(() => found.clear()); // others may find other things

/**
 * A GET whose answer hardly changes while one is on the page; calls are counted.
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
  const said = message || `The service answered with the status ${status}.`;
  return wait > 0 ? `${said.replace(/[.]?$/, ".")} Try again in ${wait === 1 ? "a second" : `${wait} seconds`}.` : said;
}

/** Whether a call was given up because its answer is of no use any more. @param {unknown} err */
export function isAborted(err) {
  return err instanceof DOMException && err.name === "AbortError";
}

/** @param {unknown} err */
export function words(err) {
  return err instanceof Failure ? err.message : "Something in this page broke. Load it again.";
}

/** The page of a build. @param {string} id */
export function buildPage(id) {
  return new URL(`view/builds/${encodeURIComponent(id)}`, root).href;
}

/** The page of a request, whose id is as good as the name that it got. @param {string} id */
export function containerPage(id) {
  return new URL(`view/containers/${encodeURIComponent(id)}`, root).href;
}

/** The same in base64, as recipes and files are sent. @param {string | Uint8Array} content */
export function base64(content) {
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  let raw = "";
  for (let i = 0; i < bytes.length; i += 8192) raw += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(raw);
}
