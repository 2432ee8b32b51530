// The page of a scan: what was found in an image, and whether the request tolerates it.
import { useEffect, useState } from "preact/hooks";
import { buildPage, call, containerPage, Failure, root, words } from "./api.js";
import { Copied } from "./copy.js";
import { count, duration, html, moment } from "./html.js";
import { Later } from "./later.js";
import { Patch, useScan, verdict } from "./scanned.js";
import { session } from "./session.js";
import { Told } from "./told.js";
import { Table, tally } from "./vulnerabilities.js";

/** The age of the data. @param {string} iso */
function age(iso) {
  const days = Math.floor((Date.now() - new Date(iso).getTime()) / 86_400_000);
  return days > 0 ? `${moment(iso)}, ${count(days, "day")} old` : moment(iso);
}

/** @param {{scan: import("./scanned.js").Scan}} props */
function Facts({ scan: s }) {
  const build = s.buildId ?? s.mirrorId;
  return html`<dl class="facts">
    <dt>Image</dt><dd><code>${s.containerImage}</code></dd>
    ${s.platform && html`<dt>Platform</dt><dd>${s.platform.split(",").join(" and ")}</dd>`}
    ${s.digest && html`<dt>Digest</dt><dd><${Copied} text=${s.digest} what="the digest" /></dd>`}
    <dt>Tolerated</dt><dd>${(s.scanLevels ?? []).join(", ").toLowerCase() || "nothing"}; the scan is ${s.scanMode === "required" ? "required" : "not required"}</dd>
    ${s.status === "SUCCEEDED" && html`<dt>Found</dt><dd>${tally(s.counts)} in ${count(s.packages ?? 0, "package")}</dd>`}
    ${s.startTime && html`<dt>Scanned</dt><dd>${moment(s.startTime)}${s.duration ? `, in ${duration(Number(s.duration) / 1e9)}` : ""}</dd>`}
    ${s.databaseTime && html`<dt>With data of</dt><dd>${age(s.databaseTime)}</dd>`}
    <dt>Requested as</dt><dd><a href=${containerPage(s.requestId)}>The request</a>${build && html`, <a href=${s.mirrorId ? new URL(`view/mirrors/${encodeURIComponent(build)}`, root).href : buildPage(build)}>the ${s.mirrorId ? "mirror" : "build"} and its log</a>`}</dd>
  </dl>`;
}

/** @param {{scan: import("./scanned.js").Scan}} props */
function Found({ scan }) {
  const list = scan.vulnerabilities ?? [];
  const open = list.filter((v) => !v.status), out = list.filter((v) => v.status);
  const gaps = [...(scan.gaps ?? []).map((g) => `${g}.`), ...(scan.note ? [scan.note] : [])];
  return html`
    ${open.length > 0 && html`<section><h2>Found</h2><${Table} list=${open} name="Vulnerabilities of the image" /><${Patch} scan=${scan} /></section>`}
    ${out.length > 0 && html`<section><h2>Ruled out</h2><p class="note">OpenVEX documents state that these do not affect the image, so they do not count.</p>
      <${Table} list=${out} name="Vulnerabilities that are ruled out" /></section>`}
    ${gaps.length > 0 && html`<section><h2>Not covered</h2><ul class="plain">${gaps.map((g, i) => html`<li key=${i}>${g}</li>`)}</ul></section>`}`;
}

/** Why the scan cannot be shown. @param {{failure: unknown}} props */
function Missing({ failure }) {
  const status = failure instanceof Failure ? failure.status : undefined;
  const [off, tell] = useState("");
  useEffect(() => { // a missing scan may be one of a server that has no data about vulnerabilities
    if (status !== 404) return;
    call("GET", "v1alpha1/abilities").then(({ abilities = [] }) => {
      const scan = abilities.find((/** @type {any} */ a) => a.name === "scan");
      if (scan && !scan.available) tell(`This server does not scan images: ${scan.problem}.`);
    }, () => undefined);
  }, [status]);
  const mine = status === 401 && !session.value;
  return html`<h1>The scan cannot be shown</h1><p class="lead" role="alert">${mine ? "The scan belongs to the request of a user: sign in as that user." : words(failure)}</p>
    ${off && html`<p>${off}</p>`}
    ${mine ? html`<${Later} load=${() => import("./login.js")} />` : html`<p><a class="button" href=${root.href}>Make a container</a></p>`}`;
}

/** @param {{id: string}} props */
export function View({ id }) {
  const { scan, failure } = useScan(`v1alpha1/scans/${id}`);
  useEffect(() => {
    document.title = `Scan ${id} · Slipway`;
  }, [id]);
  if (failure && !scan) return html`<${Missing} failure=${failure} />`;
  if (!scan) return html`<h1 class="id">Scan <code>${id}</code></h1><p role="status">Looking it up…</p>`;
  const [text, look] = verdict(scan);
  return html`<h1 class="id">Scan <code>${id}</code></h1>
    <p class=${`verdict ${look}`} role="status">${text}</p>
    ${scan.status === "FAILED" && scan.reason && html`<div class="failed" role="alert"><h2>Why</h2><pre class="why"><${Told} text=${scan.reason} /></pre></div>`}
    <${Facts} scan=${scan} /><${Found} scan=${scan} />
    ${failure && html`<p class="note problem" role="alert"><${Told} text=${words(failure)} /></p>`}`;
}
