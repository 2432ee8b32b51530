// HTML templates: inserted values are always shown as text.
import { h } from "preact";
import htm from "htm";

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(/** @type {any} */ (h));

/** @param {number} bytes */
export function size(bytes) {
  const units = ["B", "kB", "MB", "GB"];
  let i = 0;
  while (bytes >= 999.5 && i < units.length - 1) {
    bytes /= 1000;
    i++;
  }
  return `${i === 0 || bytes >= 99.5 ? Math.round(bytes) : bytes.toFixed(1)} ${units[i]}`;
}

/** @param {number} seconds */
export function duration(seconds) {
  if (seconds < 1) return "less than a second";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60), rest = Math.round(seconds % 60);
  if (minutes < 60) return rest ? `${minutes} min ${rest} s` : `${minutes} min`;
  return minutes % 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${minutes / 60} h`;
}

/** A size of memory in binary units, as programs request it. @param {number} bytes */
export function memory(bytes) {
  const gib = bytes / 2 ** 30;
  return gib < 1 ? `${Math.round(gib * 1024)} MiB` : `${gib.toLocaleString(undefined, { maximumFractionDigits: 1 })} GiB`;
}

/** A time in the user's time zone. @param {string} iso */
export function moment(iso) {
  const at = new Date(iso);
  return isNaN(at.getTime()) ? iso : at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/** @type {[unit: Intl.RelativeTimeFormatUnit, days: number][]} */
const ages = [["year", 365], ["month", 30], ["week", 7], ["day", 1]];

/** How long ago a time was, in words, e.g. "3 weeks ago". @param {string} iso */
export function ago(iso) {
  const days = (Date.now() - new Date(iso).getTime()) / 86_400_000;
  if (isNaN(days)) return iso;
  const [unit, long] = ages.find(([, n]) => days >= n) ?? ["day", 1];
  return new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(-Math.floor(days / long), unit);
}

/** @param {number} n @param {string} one */
export function count(n, one) {
  return `${n.toLocaleString()} ${one}${n === 1 ? "" : "s"}`;
}

/** A name that breaks between its words, e.g. after "_", rather than in them. @param {string} name */
export function breakable(name) {
  return name.split(/(?<=[_:./-])/).map((word) => html`${word}<wbr />`);
}
