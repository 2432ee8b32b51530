// Packs files as a layer for a request: a gzip'd tar in base64, with its digests.
import { base64 } from "./api.js";

/**
 * @typedef {{path: string, file: File}} Item
 * @typedef {{count: number, size: number, layer: {location: string, gzipDigest: string, gzipSize: number, tarDigest: string}}} Layer
 */

/** The size limits in bytes: compressed, and uncompressed. */
const largest = 10_000_000;
const largestRaw = 100_000_000;

/** An error for files that cannot be packed, with a message for the user. */
export class Unfit extends Error {}

/**
 * Packs files reproducibly: without times, and in sorted order.
 * @param {Item[]} items
 * @param {string} into the target folder, e.g. "opt/tool"; "" for none
 * @returns {Promise<Layer>}
 */
export async function pack(items, into) {
  if (!crypto.subtle) throw new Unfit("Files can only be added if this page is opened over https.");
  const size = items.reduce((sum, i) => sum + i.file.size, 0);
  if (size > largestRaw) throw new Unfit("These files are larger than 100 MB. Use the command line to send more.");
  const before = into.split("/").filter(Boolean).map((p) => `${p}/`).join("");
  const sorted = items.map((i) => ({ path: before + i.path, file: i.file })).sort((a, b) => (a.path < b.path ? -1 : 1));
  /** @type {Uint8Array<ArrayBuffer>[]} */
  const blocks = [];
  for (const { path, file } of sorted) blocks.push(...entry(path, new Uint8Array(await file.arrayBuffer())));
  const tar = new Blob([...blocks, new Uint8Array(1024)]);
  const gzip = new Uint8Array(await new Response(tar.stream().pipeThrough(new CompressionStream("gzip"))).arrayBuffer());
  if (gzip.length > largest) throw new Unfit("These files are larger than 10 MB, compressed. Use the command line to send more.");
  return {
    count: items.length,
    size,
    layer: { location: `data:${base64(gzip)}`, gzipDigest: await digest(gzip), gzipSize: gzip.length, tarDigest: await digest(new Uint8Array(await tar.arrayBuffer())) },
  };
}

/** @param {Uint8Array<ArrayBuffer>} bytes */
async function digest(bytes) {
  const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return `sha256:${[...sum].map((b) => b.toString(16).padStart(2, "0")).join("")}`;
}

/** A file in the tar; scripts and ELF programs are executable. @param {string} path @param {Uint8Array<ArrayBuffer>} content */
function entry(path, content) {
  const begins = String.fromCharCode(...content.subarray(0, 4));
  const mode = begins.startsWith("#!") || begins === "\x7fELF" ? 0o755 : 0o644;
  const name = new TextEncoder().encode(path);
  const long = name.length > 100 ? record("x", "pax", 0o644, pax(path)) : [];
  return [...long, ...record("0", path, mode, content)];
}

/** A pax record for a path of any length. The length in the record includes its own digits. @param {string} path */
function pax(path) {
  const rest = new TextEncoder().encode(` path=${path}\n`).length;
  let all = rest + 1;
  while (String(all).length + rest !== all) all = String(all).length + rest;
  return new TextEncoder().encode(`${all} path=${path}\n`);
}

/** @param {string} type @param {string} name @param {number} mode @param {Uint8Array<ArrayBuffer>} content */
function record(type, name, mode, content) {
  const header = new Uint8Array(512);
  /** @param {number} at @param {number} most @param {string} text */
  const put = (at, most, text) => header.set(new TextEncoder().encode(text).subarray(0, most), at);
  /** @param {number} n @param {number} width */
  const octal = (n, width) => `${n.toString(8).padStart(width - 1, "0")}\0`;
  put(0, 100, name);
  put(100, 8, octal(mode, 8));
  put(108, 8, octal(0, 8));
  put(116, 8, octal(0, 8));
  put(124, 12, octal(content.length, 12));
  put(136, 12, octal(0, 12));
  put(148, 8, "        ");
  put(156, 1, type);
  put(257, 8, "ustar\x0000");
  put(148, 8, `${octal(header.reduce((sum, b) => sum + b, 0), 7)} `);
  return [header, content, new Uint8Array((512 - (content.length % 512)) % 512)];
}
