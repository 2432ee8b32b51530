// How far a build is, and why it failed.
import { useEffect, useState } from "preact/hooks";
import { duration, html } from "./html.js";

/** @type {Record<string, string>} what a worker does, in words */
const phases = {
  prepare: "Preparing", fetch: "Fetching packages", build: "Running the recipe", sif: "Making the Singularity image", push: "Storing",
};

/** @type {Record<string, string>} */
const reasons = {
  solve: "The packages do not fit together",
  build: "A step of the build failed",
  push: "The registry did not take the image",
  timeout: "It took too long",
  memory: "It needed more memory than a build may have",
  cancelled: "It was cancelled",
  internal: "Something in the service broke; it is not your recipe",
};

/** A length of time, as exactly as an estimate is. @param {number} ms */
const about = (ms) => duration(ms < 90_000 ? Math.max(5, Math.round(ms / 5000) * 5) : Math.round(ms / 60_000) * 60);

/**
 * When a build is likely to begin, and to be over: so long do builds like it take here.
 * @param {{expected: {start: number, end: number}}} props moments; 0 is not known
 */
export function Expected({ expected: { start, end } }) {
  const [now, tick] = useState(Date.now());
  useEffect(() => {
    tick(Date.now());
    const every = setInterval(() => tick(Date.now()), 5000);
    return () => clearInterval(every);
  }, [start, end]);
  if (end <= now) return null;
  return html`<p class="note expected">${start > now + 1000 ? `Likely to begin in about ${about(start - now)}, and to be over in about ${about(end - now)}` : `Likely to be over in about ${about(end - now)}`}, as builds like it went lately.</p>`;
}

/** @param {{reason?: string, message?: string}} props */
export function Failed({ reason, message }) {
  return html`<div class="failed" role="alert">
    <h2>${reasons[reason ?? ""] ?? "The build failed"}</h2>
    ${message && html`<pre class="why">${message}</pre>`}
  </div>`;
}

/**
 * The steps of a build: those that it went through, and those that every build has.
 * @param {{seen: string[], end?: {succeeded: boolean}, place?: number}} props seen are
 *   its phases so far
 */
export function Steps({ seen, end, place }) {
  const made = seen.filter((p) => p !== "push");
  const names = ["queued", ...(made.length ? made : ["prepare"]), "push", "ready"];
  const now = end?.succeeded ? names.length : names.indexOf(seen[seen.length - 1] ?? "queued");
  /** @param {number} i */
  const state = (i) => (i < now ? "done" : i > now ? "later" : end ? "stopped" : "now");
  /** @type {Record<string, string>} */
  const said = { done: "done", later: "not yet", stopped: "ended here", now: "now" };
  /** @param {string} name */
  const title = (name) => (name === "queued" ? `In the queue${place ? `, place ${place}` : ""}` : name === "ready" ? "Ready" : (phases[name] ?? name));
  return html`<ol class="steps" aria-label="Progress">
    ${names.map((name, i) => html`<li key=${name} class=${state(i)} aria-current=${state(i) === "now" ? "step" : undefined}>
      ${title(name)}<span class="unseen">: ${said[state(i)]}</span></li>`)}
  </ol>`;
}
