// The progress of a build, and why it failed.
import { useEffect, useState } from "preact/hooks";
import { duration, html } from "./html.js";
import { Told } from "./told.js";

/** @type {Record<string, string>} the phases of a build */
const phases = {
  prepare: "Preparing", fetch: "Fetching packages", build: "Running the recipe", sif: "Making the Singularity image", push: "Storing",
};

/** @type {Record<string, string>} */
const reasons = {
  solve: "The packages do not fit together",
  build: "A step of the build failed",
  push: "The registry rejected the image",
  timeout: "It took too long",
  memory: "The build exceeded its memory limit",
  cancelled: "It was cancelled",
  scan: "The scan does not allow the image",
  internal: "The service had an internal error; your recipe is not the cause",
};

/** A rounded duration, as precise as an estimate can be. @param {number} ms */
const about = (ms) => duration(ms < 90_000 ? Math.max(5, Math.round(ms / 5000) * 5) : Math.round(ms / 60_000) * 60);

/**
 * The estimated start and end of a build, based on recent similar builds.
 * @param {{expected: {start: number, end: number}}} props times in milliseconds since the epoch; 0 if unknown
 */
export function Expected({ expected: { start, end } }) {
  const [now, tick] = useState(Date.now());
  useEffect(() => {
    tick(Date.now());
    const every = setInterval(() => tick(Date.now()), 5000);
    return () => clearInterval(every);
  }, [start, end]);
  if (end <= now) return null;
  return html`<p class="note expected">${start > now + 1000 ? `Expected to start in about ${about(start - now)} and to finish in about ${about(end - now)}` : `Expected to finish in about ${about(end - now)}`}, based on recent builds of this kind.</p>`;
}

/** @param {{reason?: string, message?: string}} props */
export function Failed({ reason, message }) {
  return html`<div class="failed" role="alert">
    <h2>${reasons[reason ?? ""] ?? "The build failed"}</h2>
    ${message && html`<pre class="why"><${Told} text=${message} /></pre>`}
  </div>`;
}

/**
 * The steps of a build: those that it has reached, and those that every build has.
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
