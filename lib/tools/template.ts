/**
 * The templates of an HttpTool: `{{ name }}` is a value of the tool's arguments, by its path (`{{ user.name }}`), or what
 * an expression of the script language gives, whose `$` is all of them (`{{ string.uppercase($.name) }}`). `{{ env.NAME }}`
 * alone is an env var of the agent. A template is read once: what a value holds is text, whatever it looks like.
 */
import { isMap } from "../http/valid.ts";
import { edgeWorld, type Json, runScript } from "../script/index.ts";

/** A text of a config, taken apart. */
type Part = { text: string } | { env: string } | { path: string[] } | { expression: string };

/** Why a request can't be made of these arguments: told to the model. */
export class Unusable extends Error {}

const PATH = /^[\p{L}_][\p{L}\p{N}_-]*(\.[\p{L}\p{N}_-]+)*$/u;

function partsOf(text: string): Part[] {
  const parts: Part[] = [];
  let at = 0;
  for (let open = text.indexOf("{{"); open >= 0; open = text.indexOf("{{", at)) {
    const close = text.indexOf("}}", open);
    if (close < 0) break;
    if (open > at) parts.push({ text: text.slice(at, open) });
    const inner = text.slice(open + 2, close).trim();
    const [, env] = inner.match(/^env\.([A-Za-z_][A-Za-z0-9_]*)$/) ?? [];
    parts.push(env ? { env } : PATH.test(inner) ? { path: inner.split(".") } : { expression: inner });
    at = close + 2;
  }
  if (at < text.length) parts.push({ text: text.slice(at) });
  return parts;
}

/** What templates are filled with. */
export type Values = { args: Record<string, unknown>; env: Readonly<Record<string, string>> };

/** The value of an env var, which must be there. */
export function envVar({ env }: Pick<Values, "env">, name: string): string {
  const value = Object.hasOwn(env, name) ? env[name] : undefined;
  if (value === undefined) throw new Unusable(`the agent has no env var ${name}`);
  return value;
}

/** Nothing is outside. */
const nowhere = edgeWorld({ fetch: async () => Response.error() });

async function resultOf(part: Exclude<Part, { text: string }>, values: Values): Promise<unknown> {
  if ("env" in part) return envVar(values, part.env);
  if ("path" in part) {
    return part.path.reduce<unknown>(
      (inner, key) => (isMap(inner) && Object.hasOwn(inner, key) ? inner[key] : null),
      values.args,
    );
  }
  const limits = { time_ms: 1000, steps: 1_000_000, calls: 0 };
  const { status, result, error } = await runScript(part.expression, {
    input: values.args as Json,
    world: nowhere,
    limits,
  });
  if (status !== "done") throw new Unusable(`{{ ${part.expression.slice(0, 100)} }} has no value: ${error}`);
  return result;
}

const toText = (value: unknown): string =>
  value === null || value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);

/** A text with its templates filled in, each value spelled as its place asks. */
export async function fillText(
  text: string,
  values: Values,
  spell: (value: unknown) => string = toText,
): Promise<string> {
  let filled = "";
  for (const part of partsOf(text)) filled += "text" in part ? part.text : spell(await resultOf(part, values));
  return filled;
}

/** The value of a text that is one template and no more; of all others undefined. */
export async function fillWhole(text: string, values: Values): Promise<unknown> {
  const [part, another] = partsOf(text.trim());
  return part && !another && !("text" in part) ? ((await resultOf(part, values)) ?? null) : undefined;
}

/** A value of JSON with the templates of its texts filled in. One that is a whole text keeps its value's type. */
export async function fillJson(value: unknown, values: Values): Promise<unknown> {
  if (typeof value === "string") {
    const whole = await fillWhole(value, values);
    return whole === undefined ? fillText(value, values) : whole;
  }
  if (Array.isArray(value)) return Promise.all(value.map((item) => fillJson(item, values)));
  if (!isMap(value)) return value;
  const fields = Object.entries(value).map(async ([name, inner]) => [name, await fillJson(inner, values)] as const);
  return Object.fromEntries(await Promise.all(fields));
}

const encode = (text: string) => encodeURIComponent(text.toWellFormed());

/**
 * An address with its templates filled in. A value stands in one place of the host, of one segment of the path, or of the
 * query, and leads to no other: not by a slash or its like, nor by `..`, however often that is encoded.
 */
export async function fillUrl(text: string, values: Values): Promise<string> {
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
    if (isHost && "env" in part) throw new Unusable("an env var has no place in an address's host");
    const value = toText(await resultOf(part, values));
    const name = "path" in part ? part.path.join(".") : "a value";
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
