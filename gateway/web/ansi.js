// Log lines as a terminal shows them: with colours, and without control sequences that move the
// cursor.
import { html } from "./html.js";

const escape = /\x1b(?:\[([0-9;:?]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])/g;
const colours = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/** The visible end of a line that was overwritten. @param {string} line */
function last(line) {
  const pieces = line.split("\n");
  return pieces.findLast((p) => p) ?? "";
}

/** A line without control characters. @param {string} line */
export function bare(line) {
  return last(line).replace(escape, "").replace(/[\x00-\x08\x0b-\x1f\x7f]/g, "");
}

/**
 * @param {string} style classes so far
 * @param {string} codes the parameters of "select graphic rendition"
 */
function restyle(style, codes) {
  let now = style.split(" ").filter(Boolean);
  const list = codes.split(/[;:]/).map(Number);
  for (let i = 0; i < list.length; i++) {
    const c = list[i];
    if (c === 38 || c === 48) i += list[i + 1] === 5 ? 2 : 4; // skips 256-colour and RGB codes
    else if (c === 0) now = [];
    else if (c === 1) now = [...now, "strong"];
    else if (c === 22) now = now.filter((n) => n !== "strong");
    else if ((c >= 30 && c <= 39) || (c >= 90 && c <= 97)) {
      now = now.filter((n) => n === "strong");
      if (c !== 39) now.push(`ansi-${colours[c % 10]}`);
    }
  }
  return now.join(" ");
}

/** A line with its colours as HTML. @param {string} line */
export function coloured(line) {
  const text = last(line);
  if (!text.includes("\x1b")) return bare(text);
  /** @type {any[]} */
  const out = [];
  let style = "";
  let from = 0;
  /** @param {number} to */
  const take = (to) => {
    const piece = bare(text.slice(from, to));
    if (piece) out.push(style ? html`<span class=${style}>${piece}</span>` : piece);
  };
  for (const m of text.matchAll(escape)) {
    take(m.index);
    from = m.index + m[0].length;
    if (m[2] === "m") style = restyle(style, m[1] || "0");
  }
  take(text.length);
  return out;
}
