import { entry, namespace } from "../entry.ts";
import { fail } from "../errors.ts";
import type { Run } from "../run.ts";
import {
  err,
  isList,
  isMap,
  type Json,
  type MapValue,
  toJsonText,
  toText,
  typeWords,
  type Value,
  type Waiting,
} from "../values.ts";
import type { HttpRequest } from "../world.ts";

const MAX_TIMEOUT_S = 10;

/** `a=1&b=2&b=3`; a field that is null is left out. */
function encoded(run: Run, fields: MapValue): string {
  const pairs: string[] = [];
  for (const [name, value] of fields) {
    for (const one of isList(value) ? value : [value]) {
      if (one === null) continue;
      const pair = `${encode(name)}=${encode(toText(one, run))}`;
      // One by one: a long text may stand there many times.
      run.text(pair.length + 1);
      pairs.push(pair);
    }
  }
  return pairs.join("&");
}

const encode = (text: string) => encodeURIComponent(text.toWellFormed());

function withQuery(url: string, query: string): string {
  if (query === "") return url;
  const [address, fragment] = url.split("#", 2) as [string, string?];
  const joined = `${address}${address.includes("?") ? "&" : "?"}${query}`;
  return fragment === undefined ? joined : `${joined}#${fragment}`;
}

function objectOf(options: MapValue | undefined, name: string): MapValue {
  const value = options?.get(name) ?? null;
  if (value === null) return new Map();
  if (!isMap(value)) throw fail("runtime", `\`${name}\` of a request is an object, not ${typeWords(value)}`);
  return value;
}

function requestOf(run: Run, method: string, url: string, options: MapValue | undefined): HttpRequest | null {
  const headers: Record<string, string> = {};
  for (const [name, value] of objectOf(options, "headers")) {
    if (value === null) continue;
    const text = toText(value, run);
    run.text(name.length + text.length);
    headers[name.toLowerCase()] = text;
  }
  const form = objectOf(options, "form");
  const given = options?.get("body") ?? null;
  let body: string | null = null;
  if (form.size > 0) {
    body = encoded(run, form);
    headers["content-type"] ??= "application/x-www-form-urlencoded";
  } else if (typeof given === "string") body = given;
  else if (given !== null) {
    body = toJsonText(given, run);
    headers["content-type"] ??= "application/json";
  }
  if (body !== null && body.length > run.limits.call_bytes) return null;
  const timeout = options?.get("timeout") ?? MAX_TIMEOUT_S;
  if (typeof timeout !== "number")
    throw fail("runtime", `\`timeout\` is a number of seconds, not ${typeWords(timeout)}`);
  return {
    method: method.toUpperCase(),
    url: withQuery(url, encoded(run, objectOf(options, "query"))),
    headers,
    body,
    timeout_ms: Math.round(Math.min(MAX_TIMEOUT_S, Math.max(0.1, timeout)) * 1000),
  };
}

function* send(run: Run, name: string, method: string, url: string, options: MapValue | undefined): Waiting<Value> {
  const fake = run.tests?.mocks.get(`requests.${name}`);
  if (fake) return yield* run.calling(fake, [url, options ?? null]);
  const request = requestOf(run, method, url, options);
  if (!request) return err(`the body is larger than ${run.limits.call_bytes / 1_000_000} MB`);
  return yield* run.outbound("requests.request", request as unknown as Json);
}

const verb = (name: string, doc: string, example: string) =>
  entry({
    name,
    params: ["url: string", "options?: object"],
    returns: "result<{status, headers, body}>",
    doc,
    example,
    steps: (run, url, options) => send(run, name, name, url, options),
  });

export const requests = namespace(
  "requests",
  "HTTP. Every answer is an ok result of `{status, headers, body}`, also a 404 or 500; an error result means that none came. Names of headers are in small letters, and a JSON body is parsed. Private addresses are refused. Options: `headers`, `query` and `form` (objects), `body` (a string as it is, all else as JSON), `timeout` in seconds, at most 10.",
  [
    verb("get", "Reads.", 'unwrap(requests.get("https://api.example.com/items", { query: { page: 2 } })).body'),
    verb("post", "Creates.", 'unwrap(requests.post("https://api.example.com/items", { body: { name: "a" } })).status'),
    verb("put", "Replaces.", 'unwrap(requests.put("https://api.example.com/items/1", { body: { name: "b" } })).status'),
    verb(
      "patch",
      "Changes.",
      'unwrap(requests.patch("https://api.example.com/items/1", { body: { name: "c" } })).status',
    ),
    verb("delete", "Deletes.", 'unwrap(requests.delete("https://api.example.com/items/1")).status'),
    verb("head", "Reads the headers alone.", 'unwrap(requests.head("https://api.example.com/items")).headers'),
    entry({
      name: "request",
      params: ["method: string", "url: string", "options?: object"],
      returns: "result<{status, headers, body}>",
      doc: "Any method.",
      example: 'unwrap(requests.request("GET", "https://api.example.com/items")).body',
      steps: (run, method, url, options) => send(run, "request", method, url, options),
    }),
  ],
);
