// The query of the page's address as the state of a view, so that links, reload and Back restore it.
import { useEffect, useState } from "preact/hooks";

/**
 * Returns the query and a function that changes parameters of it, which adds an entry to the history. An empty value
 * removes the parameter.
 * @returns {[query: URLSearchParams, change: (changes: Record<string, string>) => void]}
 */
export function useQuery() {
  const [search, set] = useState(location.search);
  useEffect(() => {
    const back = () => set(location.search);
    addEventListener("popstate", back);
    return () => removeEventListener("popstate", back);
  }, []);
  return [new URLSearchParams(search), (changes) => {
    const next = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
      if (value) next.set(name, value);
      else next.delete(name);
    }
    const text = next.toString() && `?${next}`;
    if (text === location.search) return;
    history.pushState(null, "", text || location.pathname);
    set(text);
  }];
}

/** The number of entries that a list skips, from the parameter "from". @param {URLSearchParams} query */
export function offsetOf(query) {
  const n = Number(query.get("from"));
  return Number.isSafeInteger(n) && n > 0 && n <= 1e9 ? n : 0;
}
