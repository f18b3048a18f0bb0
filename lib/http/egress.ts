/**
 * The way out to what strangers name: every request of a script or of a tool goes through here, behind the guard.
 */
import { judgeUrl } from "./guard.ts";

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

export interface Egress {
  fetch: (url: string, init: RequestInit) => Promise<Response>;
  /** Whether this machine may be reached, by http. */
  loopback?: boolean;
}

export interface FetchOptions extends Egress {
  /** Of the answer's body. */
  max_bytes: number;
  /** Of everything together, redirects and body included. */
  timeout_ms: number;
  /** What is beyond `max_bytes` is left out, and the answer says so; else too large an answer is an error. */
  cut?: boolean;
  /** Redirects stay on the origin: one that leads elsewhere is an error. Else they go on without what may be secret. */
  same_origin?: boolean;
  /** Ends the request, which is then an error. */
  signal?: AbortSignal;
}

export type HttpInit = { method: string; headers: Record<string, string>; body: string | null };

/** `body` is parsed where it is JSON; `cut`: it was longer. */
export type Fetched = {
  ok: { status: number; headers: Record<string, string>; body: unknown; cut: boolean };
};
/** `lost`: it may have reached somebody whose answer did not come, or not whole. */
export type Unfetched = { error: string; lost: boolean };

/** What a Worker's requests to strangers' addresses leave by. */
export const egressOf = (env: { EGRESS?: Fetcher; ALLOW_LOOPBACK?: string }): Egress => ({
  fetch: (url, init) => (env.EGRESS ?? globalThis).fetch(url, init),
  loopback: env.ALLOW_LOOPBACK !== undefined,
});

/**
 * One request, behind the guard. Redirects are followed by hand, at most five, each judged anew. Answers `{ok}` for every
 * status, and `{error}` for what was refused, took too long, answered too much or did not answer. Never throws.
 */
export async function fetchGuarded(url: string, init: HttpInit, options: FetchOptions): Promise<Fetched | Unfetched> {
  const { timeout_ms, signal } = options;
  const abort = new AbortController();
  const way = { lost: false };
  let timer: ReturnType<typeof setTimeout> | undefined;
  let gone = () => {};
  // A fetch that does not listen to its signal must not hold its caller either.
  const late = new Promise<Unfetched>((resolve) => {
    const end = (error: string) => resolve({ error, lost: way.lost });
    timer = setTimeout(() => end(`no answer within ${timeout_ms / 1000} seconds`), timeout_ms);
    gone = () => end("the request was ended");
  });
  if (signal?.aborted) gone();
  else signal?.addEventListener("abort", gone);
  try {
    return await Promise.race([late, follow(url, init, options, abort.signal, way)]);
  } catch {
    // What a platform's fetch throws names inner addresses at times; nothing of it is for who asked.
    return { error: "the request failed: no answer came", lost: way.lost };
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", gone);
    abort.abort();
  }
}

/** How long the body of an answer is waited for whose status alone counts. */
const BODY_MS = 1_000;

/**
 * Tells a stranger something: one POST behind the guard, whose answer is its status. A redirect is an answer, and not
 * followed. Of the body comes along what is there soon, of `max_bytes` at most. Answers `{error}` for what was refused or
 * brought no status in time. Never throws.
 */
export async function postGuarded(
  url: string,
  { headers, body }: { headers: Record<string, string>; body: string },
  { fetch, loopback = false, max_bytes, timeout_ms }: Egress & { max_bytes: number; timeout_ms: number },
): Promise<{ status: number; retry_after: string | null; text: string; answered_at: number } | { error: string }> {
  const verdict = judgeUrl(url, { loopback });
  if ("refused" in verdict) return { error: `refused: ${verdict.refused}` };
  const abort = new AbortController();
  const timers: ReturnType<typeof setTimeout>[] = [];
  const after = (ms: number) => new Promise<null>((resolve) => timers.push(setTimeout(() => resolve(null), ms)));
  try {
    const asked = fetch(verdict.url.href, { method: "POST", headers, body, redirect: "manual", signal: abort.signal });
    asked.catch(() => {});
    // A fetch that does not listen to its signal must not hold its caller either.
    const response = await Promise.race([asked, after(timeout_ms)]);
    if (!response) return { error: `no answer within ${timeout_ms / 1000} seconds` };
    const answered_at = Date.now();
    const text = await beginningOf(response, max_bytes, after(BODY_MS));
    return { status: response.status, retry_after: response.headers.get("retry-after"), text, answered_at };
  } catch {
    return { error: "the request failed: no answer came" };
  } finally {
    for (const timer of timers) clearTimeout(timer);
    abort.abort();
  }
}

/** So much of a body as comes before `end`, and is within `max_bytes`; the rest is left where it is. */
async function beginningOf({ body }: Response, max_bytes: number, end: Promise<null>): Promise<string> {
  if (!body) return "";
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let left = max_bytes;
  try {
    while (left > 0) {
      const part = await Promise.race([reader.read(), end]);
      if (!part || part.done) break;
      const bytes: Uint8Array = part.value.subarray(0, left);
      left -= bytes.byteLength;
      text += decoder.decode(bytes, { stream: true });
    }
  } catch {
    // It broke off: the status stands.
  }
  void reader.cancel().catch(() => {});
  return text;
}

async function follow(
  url: string,
  init: HttpInit,
  { fetch, loopback = false, max_bytes, cut = false, same_origin = false }: FetchOptions,
  signal: AbortSignal,
  way: { lost: boolean },
): Promise<Fetched | Unfetched> {
  const failed = (error: string): Unfetched => ({ error, lost: way.lost });
  let target = url;
  let { method } = init;
  if (!METHODS.has(method)) return failed(`the method ${method.slice(0, 20)} is not allowed`);
  let headers = Object.entries(init.headers).map(([name, value]) => [name.toLowerCase(), value] as [string, string]);
  if (headers.length > MAX_HEADERS) return failed(`a request has at most ${MAX_HEADERS} headers`);
  const ours = headers.find(([name]) => OURS.test(name));
  if (ours) return failed(`the header ${ours[0]} cannot be set`);
  if (headers.some(([name, value]) => !/^[\w!#$%&'*+.^`|~-]+$/.test(name) || /[^\t\x20-\x7e\x80-\xff]/.test(value))) {
    return failed("a header has a name or value that cannot be sent");
  }

  for (let redirects = 0; ; redirects++) {
    const verdict = judgeUrl(target, { loopback });
    if ("refused" in verdict) return failed(`refused: ${verdict.refused}`);
    way.lost = true;
    const response = await fetch(verdict.url.href, {
      method,
      headers: Object.fromEntries(headers),
      body: method === "GET" || method === "HEAD" ? null : init.body,
      redirect: "manual",
      signal,
    });
    const location = response.headers.get("location");
    if (![301, 302, 303, 307, 308].includes(response.status) || location === null) {
      return await answerOf(response, method, max_bytes, cut);
    }
    await response.body?.cancel();
    way.lost = false;
    if (redirects >= MAX_REDIRECTS) return failed(`more than ${MAX_REDIRECTS} redirects`);
    // Relative addresses are joined; the spelling of absolute ones is judged as it came.
    if (!URL.canParse(location, verdict.url.href)) return failed("a redirect leads to no address");
    const next = /^[a-z][a-z0-9+.-]*:/i.test(location) ? location : new URL(location, verdict.url.href).href;
    if (!URL.canParse(next)) return failed("a redirect leads to no address");
    if (new URL(next).origin !== verdict.url.origin) {
      if (same_origin) return failed("the answer is a redirect to another origin, which is not followed");
      headers = headers.filter(([name]) => PLAIN.has(name));
    }
    if (response.status === 303 || (response.status < 303 && method === "POST")) {
      method = method === "HEAD" ? "HEAD" : "GET";
      headers = headers.filter(([name]) => !OF_BODY.test(name));
    }
    target = next;
  }
}

async function answerOf(
  response: Response,
  method: string,
  max_bytes: number,
  cut: boolean,
): Promise<Fetched | Unfetched> {
  const { text, whole } = method === "HEAD" ? { text: "", whole: true } : await read(response, max_bytes, cut);
  if (!whole && !cut) return { error: `the answer is larger than ${max_bytes / 1_000_000} MB`, lost: true };
  const headers: Record<string, string> = {};
  response.headers.forEach((value, name) => {
    headers[name.toLowerCase()] = value;
  });
  const body = whole ? bodyOf(text, headers["content-type"] ?? "") : text;
  return { ok: { status: response.status, headers, body, cut: !whole } };
}

/** The body as text. What is beyond `max_bytes` is not read. */
async function read(response: Response, max_bytes: number, cut: boolean): Promise<{ text: string; whole: boolean }> {
  if (!cut && Number(response.headers.get("content-length") ?? 0) > max_bytes) {
    await response.body?.cancel();
    return { text: "", whole: false };
  }
  if (!response.body) return { text: "", whole: true };
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let left = max_bytes;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const bytes: Uint8Array = part.value;
    if (bytes.byteLength > left) {
      await reader.cancel();
      return { text: text + decoder.decode(bytes.subarray(0, left), { stream: true }), whole: false };
    }
    left -= bytes.byteLength;
    text += decoder.decode(bytes, { stream: true });
  }
  return { text: text + decoder.decode(), whole: true };
}

/** JSON parsed where the answer says that it is some; text that only claims to be stays text. */
function bodyOf(text: string, type: string): unknown {
  if (!/^[^;]*[/+]json\b/i.test(type) || manyValues(text)) return text;
  try {
    const json = JSON.parse(text) as unknown;
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

function isShallow(json: unknown, depth: number): boolean {
  if (typeof json !== "object" || json === null) return true;
  if (depth >= MAX_JSON_DEPTH) return false;
  return Object.values(json).every((inner) => isShallow(inner as unknown, depth + 1));
}
