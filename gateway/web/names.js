// The tokens of the requests of this tab. The address of a request's page contains its id only,
// which gives no access to the image.
const key = "slipway-names";
const most = 50;

/** @returns {[id: string, token: string, buildId?: string, scanId?: string][]} the newest last */
function read() {
  try {
    return JSON.parse(sessionStorage.getItem(key) ?? "[]");
  } catch { // nothing is stored, or storage is disabled
    return [];
  }
}

/** Stores the token of a request, its build and its scan for their pages. @param {{requestId: string, containerToken?: string, buildId?: string, scanId?: string}} given */
export function remember({ requestId, containerToken, buildId, scanId }) {
  if (!containerToken) return;
  try {
    sessionStorage.setItem(key, JSON.stringify([...read(), [requestId, containerToken, buildId, scanId]].slice(-most)));
  } catch { /* the page then shows only what the id gives access to */ }
}

/** The identifier to use for a request: its token if it was made in this tab, otherwise its id. @param {string} id */
export const tokenOr = (id) => read().find(([known]) => known === id)?.[1] ?? id;

/** The scan of the newest request of this tab for a build; "" without one. @param {string} buildId */
export const scanOf = (buildId) => read().findLast(([, , build, scan]) => build === buildId && scan)?.[3] ?? "";
