import { judgeUrl } from "./guard.ts";
import type { Json } from "./values.ts";
import {
  type Answer,
  type HttpRequest,
  type HttpResponse,
  LIMITS,
  notAvailable,
  type OutboundCall,
  type World,
} from "./world.ts";

const MAX_REDIRECTS = 5;
const MAX_HEADERS = 100;
const MAX_JSON_DEPTH = 100;
/** Twice what a megabyte of usual JSON holds. */
const MAX_JSON_VALUES = 200_000;
const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);
/** Headers that say nothing secret: these alone go along when a redirect leads to another origin. */
const PLAIN = new Set(["accept", "accept-language", "content-type", "user-agent"]);
/** Headers that would lead the request elsewhere, or forge where it comes from. */
const OURS =
  /^(host|connection|content-length|transfer-encoding|upgrade|te|trailer|keep-alive|expect|forwarded|via|true-client-ip|x-real-ip|x-forwarded-.*|cf-.*|proxy-.*)$/;
/** Headers that speak of a body, and go when it goes. */
const OF_BODY = /^content-(encoding|language|location|type)$/;

export interface FetchOptions {
  fetch: (url: string, init: RequestInit) => Promise<Response>;
  /** Whether this machine may be reached, by http. */
  loopback?: boolean;
  /** Of the answer's body. */
  max_bytes?: number;
  /** Of everything together, redirects and body included. */
  timeout_ms?: number;
}

type Init = Pick<HttpRequest, "method" | "headers" | "body">;

/**
 * One request of a script, behind the guard. Redirects are followed by hand, at most five, each judged anew. Answers
 * `{ok: {status, headers, body}}` for every status, and `{error}` for what was refused, took too long, answered too
 * much or did not answer. Never throws.
 */
export async function fetchGuarded(url: string, init: Init, options: FetchOptions): Promise<Answer> {
  const { max_bytes = LIMITS.call_bytes, timeout_ms = LIMITS.call_ms } = options;
  const abort = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  // A fetch that does not listen to its signal must not hold the script either.
  const late = new Promise<Answer>((resolve) => {
    timer = setTimeout(() => resolve({ error: `no answer within ${timeout_ms / 1000} seconds` }), timeout_ms);
  });
  try {
    return await Promise.race([follow(url, init, { ...options, max_bytes }, abort.signal), late]);
  } catch {
    // What a platform's fetch throws names inner addresses at times; nothing of it is for the script.
    return { error: "the request failed: no answer came" };
  } finally {
    clearTimeout(timer);
    abort.abort();
  }
}

async function follow(
  url: string,
  init: Init,
  { fetch, loopback, max_bytes }: FetchOptions & { max_bytes: number },
  signal: AbortSignal,
): Promise<Answer> {
  let target = url;
  let { method } = init;
  if (!METHODS.has(method)) return { error: `the method ${method.slice(0, 20)} is not allowed` };
  let headers = Object.entries(init.headers).map(([name, value]) => [name.toLowerCase(), value] as [string, string]);
  if (headers.length > MAX_HEADERS) return { error: `a request has at most ${MAX_HEADERS} headers` };
  const ours = headers.find(([name]) => OURS.test(name));
  if (ours) return { error: `the header ${ours[0]} cannot be set` };
  if (headers.some(([name, value]) => !/^[\w!#$%&'*+.^`|~-]+$/.test(name) || /[^\t\x20-\x7e\x80-\xff]/.test(value))) {
    return { error: "a header has a name or value that cannot be sent" };
  }

  for (let redirects = 0; ; redirects++) {
    const verdict = judgeUrl(target, { loopback });
    if ("refused" in verdict) return { error: `refused: ${verdict.refused}` };
    const response = await fetch(verdict.url.href, {
      method,
      headers: Object.fromEntries(headers),
      body: method === "GET" || method === "HEAD" ? null : init.body,
      redirect: "manual",
      signal,
    });
    const location = response.headers.get("location");
    if (![301, 302, 303, 307, 308].includes(response.status) || location === null) {
      return await answerOf(response, method, max_bytes);
    }
    await response.body?.cancel();
    if (redirects >= MAX_REDIRECTS) return { error: `more than ${MAX_REDIRECTS} redirects` };
    // Relative addresses are joined; the spelling of absolute ones is judged as it came.
    if (!URL.canParse(location, verdict.url.href)) return { error: "a redirect leads to no address" };
    const next = /^[a-z][a-z0-9+.-]*:/i.test(location) ? location : new URL(location, verdict.url.href).href;
    if (!URL.canParse(next)) return { error: "a redirect leads to no address" };
    if (new URL(next).origin !== verdict.url.origin) headers = headers.filter(([name]) => PLAIN.has(name));
    if (response.status === 303 || (response.status < 303 && method === "POST")) {
      method = method === "HEAD" ? "HEAD" : "GET";
      headers = headers.filter(([name]) => !OF_BODY.test(name));
    }
    target = next;
  }
}

async function answerOf(response: Response, method: string, max_bytes: number): Promise<Answer> {
  const text = method === "HEAD" ? "" : await read(response, max_bytes);
  if (text === null) return { error: `the answer is larger than ${max_bytes / 1_000_000} MB` };
  const headers: Record<string, string> = {};
  response.headers.forEach((value, name) => {
    headers[name.toLowerCase()] = value;
  });
  const body = bodyOf(text, headers["content-type"] ?? "");
  const answer: HttpResponse = { status: response.status, headers, body };
  return { ok: answer as unknown as Json };
}

/** The body as text, or null when it is longer than allowed; what is beyond is not read. */
async function read(response: Response, max_bytes: number): Promise<string | null> {
  if (Number(response.headers.get("content-length") ?? 0) > max_bytes) {
    await response.body?.cancel();
    return null;
  }
  if (!response.body) return "";
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const bytes: Uint8Array = part.value;
    size += bytes.byteLength;
    if (size > max_bytes) {
      await reader.cancel();
      return null;
    }
    text += decoder.decode(bytes, { stream: true });
  }
  return text + decoder.decode();
}

/** JSON parsed where the answer says that it is some; text that only claims to be stays text. */
function bodyOf(text: string, type: string): Json {
  if (!/^[^;]*[/+]json\b/i.test(type) || manyValues(text)) return text;
  try {
    const json = JSON.parse(text) as Json;
    return isShallow(json, 0) ? json : text;
  } catch {
    return text;
  }
}

/** Values are larger than their text, `[]` by twenty times: what holds more is left for `string.parseJson`, which stops. */
function manyValues(text: string): boolean {
  let count = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    // `,`, `:`, `[` and `{`, also where they stand in a text.
    if (code === 44 || code === 58 || code === 91 || code === 123) count++;
  }
  return count > MAX_JSON_VALUES;
}

function isShallow(json: Json, depth: number): boolean {
  if (typeof json !== "object" || json === null) return true;
  if (depth >= MAX_JSON_DEPTH) return false;
  return Object.values(json).every((inner) => isShallow(inner as Json, depth + 1));
}

/**
 * How long a run waits between two turns of its computing, in milliseconds: as long as a turn. A request takes several
 * looks at the event loop, of which it would get one between two turns.
 */
const REST_MS = 10;

/**
 * A world over a `fetch`: requests go through the guard, all else to `platform`, which answers null for what it does
 * not have. Without one, platform functions answer an error result.
 */
export function edgeWorld({
  platform,
  ...outward
}: Pick<FetchOptions, "fetch" | "loopback"> & {
  platform?: (call: OutboundCall) => Promise<Answer | null>;
}): World {
  return {
    async call(_, call) {
      if (call.name === "requests.request") {
        const { url, timeout_ms, ...init } = call.args as unknown as HttpRequest;
        return fetchGuarded(url, init, { ...outward, timeout_ms });
      }
      return (await platform?.(call)) ?? notAvailable(call);
    },
    // As long as a turn computes: a request takes several looks at the event loop, and would get one between two turns.
    rest: () => new Promise((resolve) => setTimeout(resolve, REST_MS)),
    now: () => Date.now(),
    random: () => crypto.getRandomValues(new Uint32Array(1))[0]! / 4294967296,
  };
}
