/** The request of a WorkflowHttpRequest. */
import type { Effect } from "../db/schema.ts";
import { type Egress, fetchGuarded } from "../http/egress.ts";
import { isMap } from "../http/valid.ts";
import type { Json } from "../script/index.ts";

const MAX_BYTES = 200_000;
/** Of an answer that is an error. */
const MAX_TOLD = 1_000;

/** What came of it; `passing`: a fault that may pass, of what can be asked again. */
export type Sent = { ok: Json } | { error: string } | { passing: string } | { unknown: true };

export type Sending = {
  effect: Effect;
  /** The same at each attempt. */
  idempotency_key: string;
  env: Readonly<Record<string, string>>;
  signal?: AbortSignal;
};

const fieldsOf = (given: Json | undefined) => (isMap(given) ? (given as Record<string, Json>) : {});
const textOf = (value: Json) => (typeof value === "string" ? value : JSON.stringify(value));

/** Sends it, by its evaluated arguments. The secret that `auth` names is read here, and is nowhere else. */
export async function sendRequest(
  args: Json,
  { effect, idempotency_key, env, signal }: Sending,
  egress: Egress,
): Promise<Sent> {
  const { method, url, headers, query, body = null, auth, timeout_seconds } = fieldsOf(args);
  if (!URL.canParse(String(url))) return { error: "the request was not sent: its url is none" };
  const target = new URL(String(url));
  const sent = Object.fromEntries(
    Object.entries(fieldsOf(headers)).map(([name, value]) => [name.toLowerCase(), textOf(value)]),
  );
  for (const [name, value] of Object.entries(fieldsOf(query))) {
    for (const one of [value].flat() as Json[]) if (one !== null) target.searchParams.append(name, textOf(one));
  }
  const { env_var, as, name } = fieldsOf(auth) as Record<string, string | undefined>;
  if (env_var !== undefined) {
    const secret = Object.hasOwn(env, env_var) ? env[env_var]! : null;
    if (secret === null) return { error: `the request was not sent: there is no env var ${env_var}` };
    if (as === "query") target.searchParams.set(name!, secret);
    else if (as === "header") sent[name!.toLowerCase()] = secret;
    else sent.authorization = `Bearer ${secret}`;
  }
  if (effect !== "read") sent["idempotency-key"] = idempotency_key;
  if (body !== null && typeof body !== "string") sent["content-type"] ??= "application/json";
  const fetched = await fetchGuarded(
    target.href,
    { method: String(method), headers: sent, body: body === null ? null : textOf(body) },
    {
      ...{ ...egress, timeout_ms: Number(timeout_seconds) * 1000, max_bytes: MAX_BYTES },
      ...{ cut: true, same_origin: true, ...(signal && { signal }) },
    },
  );
  if ("error" in fetched) {
    if (!fetched.lost) return { error: fetched.error };
    return effect === "once" ? { unknown: true } : { passing: fetched.error };
  }
  const { status, headers: answered, cut } = fetched.ok;
  const answer = fetched.ok.body as Json;
  const failure = `HTTP ${status}: ${textOf(answer).slice(0, MAX_TOLD)}`;
  if (status === 429 || status >= 500) return { passing: failure };
  if (status >= 400) return { error: failure };
  if (cut) return { error: `the answer is longer than ${MAX_BYTES / 1000} KB` };
  return { ok: { status, content_type: answered["content-type"] ?? null, body: answer } };
}
