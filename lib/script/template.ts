/**
 * Texts with values in them: each `{{ }}` stands for the value of what is in it. A template is read once: what a value
 * holds is text, whatever it looks like.
 */
import { isMap } from "../http/valid.ts";

/** Why a template has no value: a sentence's end, for whoever wrote it. */
export class Unusable extends Error {}

/** The value of what stands between two braces, trimmed; `isHost`: where it stands names whom a request goes to. */
export type Resolve = (inner: string, isHost?: boolean) => Promise<unknown>;

/** What of a text is said, and what stands between braces. */
export function partsOf(text: string): ({ text: string } | { inner: string })[] {
  const parts: ReturnType<typeof partsOf> = [];
  let at = 0;
  for (let open = text.indexOf("{{"); open >= 0; open = text.indexOf("{{", at)) {
    const close = text.indexOf("}}", open);
    if (close < 0) break;
    if (open > at) parts.push({ text: text.slice(at, open) });
    parts.push({ inner: text.slice(open + 2, close).trim() });
    at = close + 2;
  }
  if (at < text.length) parts.push({ text: text.slice(at) });
  return parts;
}

const toText = (value: unknown): string =>
  value === null || value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);

/** A text with its templates filled in, each value spelled as its place asks. */
export async function fillText(
  text: string,
  resolve: Resolve,
  spell: (value: unknown) => string = toText,
): Promise<string> {
  let filled = "";
  for (const part of partsOf(text)) filled += "text" in part ? part.text : spell(await resolve(part.inner));
  return filled;
}

/** The value of a text that is one template and no more; of all others undefined. */
export async function fillWhole(text: string, resolve: Resolve): Promise<unknown> {
  const [part, another] = partsOf(text.trim());
  return part && !another && !("text" in part) ? ((await resolve(part.inner)) ?? null) : undefined;
}

/** A value of JSON with the templates of its texts filled in. One that is a whole text keeps its value's type. */
export async function fillJson(value: unknown, resolve: Resolve): Promise<unknown> {
  if (typeof value === "string") {
    const whole = await fillWhole(value, resolve);
    return whole === undefined ? fillText(value, resolve) : whole;
  }
  // One after another: each may take the memory of a run.
  if (Array.isArray(value)) {
    const items: unknown[] = [];
    for (const item of value) items.push(await fillJson(item, resolve));
    return items;
  }
  if (!isMap(value)) return value;
  const fields: [string, unknown][] = [];
  for (const [name, inner] of Object.entries(value)) fields.push([name, await fillJson(inner, resolve)]);
  return Object.fromEntries(fields);
}

const encode = (text: string) => encodeURIComponent(text.toWellFormed());

/**
 * An address with its templates filled in. A value stands in one place of the host, of one segment of the path, or of the
 * query, and leads to no other: not by a slash or its like, nor by `..`, however often that is encoded.
 */
export async function fillUrl(text: string, resolve: Resolve): Promise<string> {
  let filled = "";
  /** What of it the config itself says: where in the address the next value stands. */
  let said = "";
  for (const part of partsOf(text)) {
    if ("text" in part) {
      said += part.text;
      filled += part.text;
      continue;
    }
    const isHost = !/^https?:\/\/[^/?#]*[/?#]/i.test(said);
    const isPath = !isHost && !/[?#]/.test(said);
    const value = toText(await resolve(part.inner, isHost));
    const name = /^[\p{L}_][\p{L}\p{N}_.-]*$/u.test(part.inner) ? part.inner : "a value";
    if (isHost && !/^[A-Za-z0-9.-]{1,253}$/.test(value)) throw new Unusable(`${name} is no part of a host's name`);
    if (isPath && !value) throw new Unusable(`${name} is empty, and stands in the address's path`);
    if (isPath && climbs(value)) throw new Unusable(`${name} would lead to another path`);
    filled += encode(value);
  }
  const path = filled.replace(/^https?:\/\/[^/?#]*/i, "").replace(/[?#].*$/s, "");
  if (said !== text && climbs(path)) throw new Unusable("the address would lead to another path");
  return filled;
}

/** Whether a part of a path goes up, or stays: as it stands, and as a server may read it that decodes it again. */
function climbs(path: string): boolean {
  for (let i = 0, text = path; i < 4; i++) {
    if (text.split(/[/\\]/).some((segment) => segment === "." || segment === "..")) return true;
    const decoded = text.replace(/%(2e|2f|5c|25)/gi, (escaped) => decodeURIComponent(escaped));
    if (decoded === text) return false;
    text = decoded;
  }
  return true;
}
