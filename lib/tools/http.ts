/** A tool that is a request: what it sends, and what of the answer the model is told. */

import type { Effect } from "../db/schema.ts";
import { type FetchOptions, fetchGuarded } from "../http/egress.ts";
import { fillJson, fillText, fillUrl, fillWhole, type Resolve, Unusable } from "../script/template.ts";
import type { ToolAnswer, ToolAsk } from "./calls.ts";
import { envVar, type Values, valueIn } from "./template.ts";

const TIMEOUT_S = 30;
const MAX_BYTES = 1_000_000;
/** Of an answer that is an error. */
const MAX_ERROR = 2000;

/** Content of an HttpTool config, as its kind has checked it. */
export type HttpTool = {
  method: string;
  url: string;
  headers?: Record<string, string>;
  query?: Record<string, string>;
  body?: unknown;
  auth?: Auth;
  hosts?: string[];
  timeout_s?: number;
  max_bytes?: number;
};
export type Auth = { env_var: string; as: "bearer" | "header" | "query"; name?: string };

type Way = Pick<FetchOptions, "fetch" | "loopback">;

/** Makes the request. Whatever it meets is an answer. */
export async function callHttp(
  tool: HttpTool,
  effect: Effect,
  ask: Pick<ToolAsk, "arguments" | "idempotency_key" | "signal">,
  { env, ...way }: Way & Pick<Values, "env">,
): Promise<ToolAnswer> {
  const values = { args: ask.arguments, env };
  let request: Awaited<ReturnType<typeof requestOf>>;
  try {
    request = await requestOf(tool, values);
  } catch (error) {
    if (error instanceof Unusable) return { error: `The request was not sent: ${error.message}.` };
    throw error;
  }
  const { url, headers, body } = request;
  if (effect !== "read") headers["idempotency-key"] = ask.idempotency_key;
  const fetched = await fetchGuarded(
    url,
    { method: tool.method, headers, body },
    {
      ...way,
      timeout_ms: (tool.timeout_s ?? TIMEOUT_S) * 1000,
      max_bytes: tool.max_bytes ?? MAX_BYTES,
      ...{ cut: true, same_origin: true, signal: ask.signal },
    },
  );
  if ("error" in fetched) {
    return fetched.lost && effect === "once" ? { unknown: true } : { error: sentence(fetched.error) };
  }
  const { status, body: answer, cut } = fetched.ok;
  const content_type = fetched.ok.headers["content-type"] ?? null;
  if (status >= 400) return { error: `HTTP ${status}: ${textOf(answer).slice(0, MAX_ERROR)}` };
  if (typeof answer !== "string") return { ok: { content: null, resolution: { status, content_type, body: answer } } };
  const content = cut ? `${answer}\n[cut: the answer is longer than is read]` : answer;
  return { ok: { content, resolution: { status, content_type } } };
}

const textOf = (body: unknown) => (typeof body === "string" ? body : JSON.stringify(body));
const sentence = (text: string) => `${text[0]!.toUpperCase()}${text.slice(1)}.`;

async function requestOf(tool: HttpTool, values: Values) {
  const resolve = valueIn(values);
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(tool.headers ?? {})) {
    headers[name.toLowerCase()] = headerOf(await fillText(value, resolve), name);
  }
  const body = await bodyOf(tool.body ?? null, headers, resolve);
  const query: [string, string][] = [];
  for (const [name, text] of Object.entries(tool.query ?? {})) {
    const whole = await fillWhole(text, resolve);
    // As scripts' requests do: null is left out, a list comes once for each item.
    const items = whole === undefined ? [await fillText(text, resolve)] : [whole].flat();
    query.push(...items.filter((item) => item !== null).map((item): [string, string] => [name, textOf(item)]));
  }
  const { auth } = tool;
  if (auth) {
    const secret = envVar(values, auth.env_var);
    if (auth.as === "query") query.push([auth.name!, secret]);
    else headers[(auth.as === "header" ? auth.name! : "authorization").toLowerCase()] = bearing(auth, secret);
  }
  const url = withQuery(await fillUrl(tool.url, resolve), query);
  mustBeNamed(tool, url);
  return { url, headers, body };
}

export const bearing = ({ as, env_var }: Auth, secret: string) =>
  headerOf(as === "bearer" ? `Bearer ${secret}` : secret, `env var ${env_var}`);

/** A value that ends its line would begin another header. What doesn't fit is told by its name alone. */
function headerOf(value: string, name: string): string {
  if (/[^\t\x20-\x7e\x80-\xff]/.test(value)) throw new Unusable(`${name} holds what a header can't`);
  return value;
}

function withQuery(url: string, query: [string, string][]): string {
  if (!query.length) return url;
  const pairs = query.map((pair) => pair.map((text) => encodeURIComponent(text.toWellFormed())).join("="));
  const [address] = url.split("#", 1) as [string];
  return `${address}${address.includes("?") ? "&" : "?"}${pairs.join("&")}`;
}

/** Env vars go to the hosts that the config names, and so does everything: `hosts` or, without these, the URL's own. */
function mustBeNamed({ url, hosts }: HttpTool, target: string) {
  const [origin, scheme] = /^(https?:\/\/)[^/?#]*/i.exec(url) ?? [];
  if (!origin) throw new Unusable("its address is not an http or https URL");
  const named = hosts ? hosts.map((host) => scheme + host) : [origin];
  const there = URL.canParse(target) ? new URL(target) : null;
  const isThere = (address: string) => {
    if (!there || !URL.canParse(address)) return false;
    const { host, hostname } = new URL(address);
    // A host that is named without a port is named with all of them.
    return host === there.host || (hosts !== undefined && host === hostname && hostname === there.hostname);
  };
  if (!named.some(isThere)) throw new Unusable("the tool doesn't name this host");
}

/** The body, and its type in the headers where these don't say one. */
async function bodyOf(body: unknown, headers: Record<string, string>, resolve: Resolve): Promise<string | null> {
  if (body === null) return null;
  if (typeof body !== "string") {
    headers["content-type"] ??= "application/json";
    return JSON.stringify(await fillJson(body, resolve));
  }
  const type = headers["content-type"] ?? "text/plain;charset=UTF-8";
  headers["content-type"] = type;
  return fillText(body, resolve, spellingIn(type));
}

/** In a text that somebody parses, a value stays one. */
function spellingIn(type: string): ((value: unknown) => string) | undefined {
  if (/^[^;]*[/+]json\b/i.test(type)) {
    return (value) => (typeof value === "string" ? JSON.stringify(value).slice(1, -1) : JSON.stringify(value ?? null));
  }
  if (!/^application\/x-www-form-urlencoded\b/i.test(type)) return undefined;
  return (value) => (value === null ? "" : encodeURIComponent(textOf(value).toWellFormed()));
}
