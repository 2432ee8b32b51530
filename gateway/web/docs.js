// Searches the documentation. The index is fetched when the search field is used.
/** @typedef {{at: string, page: string, title: string, text: string}} Part */

const find = /** @type {HTMLElement} */ (document.getElementById("find"));
const words = /** @type {HTMLInputElement} */ (document.getElementById("words"));
const hits = /** @type {HTMLElement} */ (document.getElementById("hits"));
const root = words.dataset.root ?? "./";
const most = 12;
find.hidden = false;

/** @type {Promise<Part[]> | undefined} */
let index;
function parts() {
  index ??= fetch(`${root}search.json`).then((r) => {
    if (!r.ok) throw new Error(`${r.status}`);
    return r.json();
  });
  index.catch(() => (index = undefined)); // the next key tries again
  return index;
}

/**
 * How well a part matches: a word in the heading counts more than one in the text. 0 if a word is missing.
 * @param {Part} part @param {string[]} wanted
 */
function score(part, wanted) {
  const page = part.page.toLowerCase(), title = part.title.toLowerCase(), text = part.text.toLowerCase();
  let sum = 0;
  for (const w of wanted) {
    const at = (title === w ? 40 : 0) + (title.includes(w) ? 20 : 0) + (page.includes(w) ? 8 : 0) + Math.min(4, text.split(w).length - 1);
    if (at === 0) return 0;
    sum += at;
  }
  return sum + (part.title ? 0 : 1);
}

/** The text around the first word. @param {Part} part @param {string[]} wanted */
function excerpt(part, wanted) {
  const at = wanted.map((w) => part.text.toLowerCase().indexOf(w)).filter((i) => i >= 0);
  const from = Math.max(0, Math.min(...at, part.text.length) - 50);
  const start = from === 0 || at.length === 0 ? 0 : part.text.indexOf(" ", from) + 1;
  return (start > 0 ? "… " : "") + part.text.slice(start, start + 140);
}

/** Adds text with the words marked. @param {HTMLElement} to @param {string} text @param {string[]} wanted */
function marked(to, text, wanted) {
  const lower = text.toLowerCase();
  for (let i = 0; i < text.length; ) {
    const next = wanted.map((w) => ({ w, at: lower.indexOf(w, i) })).filter((n) => n.at >= 0).sort((a, b) => a.at - b.at || b.w.length - a.w.length)[0];
    if (!next) {
      to.append(text.slice(i));
      return;
    }
    const mark = document.createElement("mark");
    mark.textContent = text.slice(next.at, next.at + next.w.length);
    to.append(text.slice(i, next.at), mark);
    i = next.at + next.w.length;
  }
}

/** @param {Part[]} all @param {string[]} wanted */
function show(all, wanted) {
  const found = all.map((part) => ({ part, n: score(part, wanted) })).filter((f) => f.n > 0).sort((a, b) => b.n - a.n).slice(0, most);
  hits.replaceChildren(...found.map(({ part }) => {
    const item = document.createElement("li"), link = document.createElement("a"), note = document.createElement("span");
    link.href = root + part.at;
    marked(link, part.title ? `${part.page}: ${part.title}` : part.page, wanted);
    marked(note, excerpt(part, wanted), wanted);
    item.append(link, note);
    return item;
  }));
  if (found.length === 0) hits.append(Object.assign(document.createElement("li"), { textContent: "No page has these words." }));
  hits.hidden = false;
}

async function search() {
  const typed = words.value, wanted = typed.toLowerCase().split(/\s+/).filter((w) => w);
  if (wanted.length === 0) {
    hits.hidden = true;
    return;
  }
  try {
    const all = await parts();
    if (words.value === typed) show(all, wanted);
  } catch {
    hits.replaceChildren(Object.assign(document.createElement("li"), { textContent: "The index cannot be read right now." }));
    hits.hidden = false;
  }
}

words.addEventListener("focus", () => void parts().catch(() => {}), { once: true });
words.addEventListener("input", () => void search());
words.addEventListener("keydown", (e) => {
  if (e.key === "Escape") words.value = "";
  if (e.key === "Enter") /** @type {HTMLElement | null} */ (hits.querySelector("a"))?.click();
  if (e.key === "Escape") void search();
});
addEventListener("keydown", (e) => {
  const at = /** @type {HTMLElement} */ (e.target);
  if (e.key !== "/" || /^(input|textarea|select)$/i.test(at.tagName)) return;
  e.preventDefault();
  words.focus();
});
