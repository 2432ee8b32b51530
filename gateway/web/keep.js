// "Keep it": requests the image again under a permanent name, for everyone or for an organisation.
import { useEffect, useState } from "preact/hooks";
import { Action } from "./action.js";
import { call, Failure, look, root } from "./api.js";
import { html } from "./html.js";
import { session } from "./session.js";
import { Organizations } from "./space.js";
import { secret } from "./spec.js";

/** @typedef {{packages?: {entries?: string[], channels?: string[], condaOpts?: {baseImage?: string}}, containerConfig?: object, containerIncludes?: string[]}} Body */

/** Reports whether a request is one that servers keep: Conda packages without additions and without secrets. @param {Body} body */
export function canKeep({ packages: p, containerConfig, containerIncludes }) {
  return !!p && !containerConfig && !containerIncludes && ![...(p.entries ?? []), ...(p.channels ?? []), p.condaOpts?.baseImage ?? ""].some(secret);
}

/** The id of the kept image that a name belongs to; "" for another name. @param {string | undefined} name */
export function keptIn(name) {
  return /^(?:oras:\/\/)?[^/]+\/c\/([0-9a-f]{16}|org-[a-z2-7]{26})\//.exec(name ?? "")?.[1] ?? "";
}

/** Reports whether the server assembles images of packages without build steps, as all kept images are. */
async function isAble() {
  const { abilities } = await look("v1alpha1/abilities");
  return !(abilities ?? []).some((/** @type {{name?: string, available?: boolean}} */ a) => a.name === "conda" && !a.available);
}

/** @param {{body: Body, kept: (given: import("./result.js").Given) => void}} props kept handles the response */
export function Keep({ body, kept }) {
  const [able, set] = useState(false);
  const [refused, refuse] = useState(0);
  const [space, choose] = useState(0);
  useEffect(() => {
    isAble().then(set, () => set(true)); // otherwise the server states the reason
  }, []);
  if (!able) return null;
  const act = async () => {
    refuse(0);
    try {
      kept(await call("POST", "v1alpha2/container", { body: { ...body, keep: true, ...(space && { keepScope: "organization", platformWorkspaceId: space }) } }));
    } catch (err) {
      if (err instanceof Failure) refuse(err.status);
      throw err;
    }
  };
  return html`<div class="keep"><${Organizations} title="Keep it for" id=${space} choose=${choose} /><div class="actions"><${Action} plain title="Keep it" act=${act} />
    ${refused === 401 && !session.value && html`<a href=${new URL("login", root).href}>Sign in</a>`}</div>
    <p class="note">Keeps the image under a name that does not expire, for a paper or a pipeline. ${space ? "The name is a secret of the organisation: everyone who has it can pull."
      : html`Its packages are public then, in <a href=${new URL("c", root).href}>the catalogue</a>.`}</p></div>`;
}
