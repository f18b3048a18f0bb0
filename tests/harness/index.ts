/** What the tests speak with. Every answer, whoever asked, is held to the OpenAPI document and to the contract. */
import { inject } from "vitest";
import type { Credentials } from "../../lib/local/apps.ts";
import { checkAnswer } from "./contract.ts";

export const system = inject("system");

/** An answer: JSON parsed, empty bodies null. */
export type Answer = { status: number; headers: Headers; body: any; text: string };
/** A request as somebody: method, address, and maybe a body and headers. */
export type Call = (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>;
export type Role = "owner" | "admin" | "member" | "billing" | "viewer";

/** Sends a request with these headers to the system (or to one with a wall less) and checks the form of the answer. */
export function caller(credential: Record<string, string> = {}, base = system.base): Call {
  return async (method, path, body, headers = {}) => {
    const response = await fetch(base + path, {
      method,
      // Miniflare would compress each answer.
      headers: { "Content-Type": "application/json", "Accept-Encoding": "identity", ...credential, ...headers },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await textOf(response);
    const isJson = /json/.test(response.headers.get("Content-Type") ?? "");
    const answer = { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : null, text };
    await checkAnswer(base, method, path, answer);
    return answer;
  };
}

/** The first event of a record, or of what happens to it, that is followed: comments may stand before it. */
const FOLLOWED = /^event: (\w+_update|\w+\.\w+|error)\n.*\n\n/m;

/** What an answer says; of a record that is followed, its first event, since it may go on for long. */
export async function textOf(response: Response): Promise<string> {
  if (response.headers.get("Content-Type") !== "text/event-stream") return response.text();
  const reader = response.body!.pipeThrough(new TextDecoderStream() as never).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += value;
    const [first] = text.match(FOLLOWED) ?? [];
    if (first === undefined) continue;
    await reader.cancel();
    return first;
  }
}

export const bearer = (credential: string) => ({ Authorization: `Bearer ${credential}` });

/** A statement as the database's owner: to look at rows, or to age them. */
export async function sql<Row = any>(statement: string, params: unknown[] = []): Promise<Row[]> {
  const response = await fetch(`${system.control}/sql`, {
    method: "POST",
    body: JSON.stringify({ sql: statement, params }),
  });
  const rows = await response.json();
  if (!response.ok) throw new Error((rows as { error: string }).error);
  return rows as Row[];
}

let serial = 0;
/** A word that nothing else in the run has. */
export const unique = (word: string) =>
  `${word}-${process.pid}-${(serial++).toString(36)}-${Math.random().toString(36).slice(2, 8)}`;

/** Throws unless the answer has the status; gives its body. */
export async function must(answer: Promise<Answer>, status: number): Promise<any> {
  const { status: was, text, body } = await answer;
  if (was !== status) throw new Error(`expected ${status}, got ${was}: ${text}`);
  return body;
}

/** The developer's address of an app. */
export const developer = (app: string) => `/protected/api/v2/developer/apps/${app}`;

export type App = Awaited<ReturnType<typeof anApp>>;

const newSharedApp = async () =>
  (await (await fetch(`${system.control}/apps`, { method: "POST" })).json()) as Credentials;

/**
 * A fresh app with two orgs, acme and globex, each with an owner; tests share a database and never meet.
 * `as(org)` speaks as that org's owner with full access; `as(org, {role, scopes})` as a new user of that kind.
 */
export async function anApp({ base = system.base, newApp = newSharedApp } = {}) {
  const { app_id, secret_key, publishable_key } = await newApp();
  const asDeveloper = caller(bearer(secret_key), base);
  const at = developer(app_id);

  const anOrg = async (fields: object = {}): Promise<any> => {
    const slug = unique("org");
    return must(asDeveloper("POST", `${at}/orgs`, { name: "An org", slug, domain: `${slug}.example`, ...fields }), 201);
  };
  const aUser = (org: string | null, role: Role = "member", fields: object = {}): Promise<any> =>
    must(
      asDeveloper("POST", `${at}/users`, {
        email: `${unique("u")}@example.com`,
        name: "A user",
        ...(org && { org, role }),
        ...fields,
      }),
      201,
    );
  /** Mints for a user: the whole answer, with access_token and refresh_token. */
  const aToken = (user: string, scopes?: string[], fields: object = {}): Promise<any> =>
    must(asDeveloper("POST", `${at}/users/${user}/tokens`, { ...(scopes && { scopes }), ...fields }), 201);

  const acme: string = (await anOrg({ name: "Acme" })).id;
  const globex: string = (await anOrg({ name: "Globex" })).id;
  const owners: Record<string, string> = {
    [acme]: (await aUser(acme, "owner", { name: "Acme's owner" })).id,
    [globex]: (await aUser(globex, "owner", { name: "Globex's owner" })).id,
  };

  const tokens = new Map<string, Promise<string>>();
  const as = (org: string, { role = "owner", scopes }: { role?: Role; scopes?: string[] } = {}): Call => {
    const key = JSON.stringify([org, role, scopes]);
    const mint = async () => {
      const user = role === "owner" && owners[org] ? owners[org] : (await aUser(org, role)).id;
      return (await aToken(user, scopes)).access_token as string;
    };
    if (!tokens.has(key)) tokens.set(key, mint());
    return async (...call) => caller(bearer(await tokens.get(key)!), base)(...call);
  };
  return {
    app: app_id,
    at,
    secret_key,
    publishable_key,
    acme,
    globex,
    owners,
    as,
    asDeveloper,
    asNobody: caller({}, base),
    anOrg,
    aUser,
    aToken,
  };
}

/** An agent of the caller's place. */
export const anAgent = (call: Call, fields: object = {}): Promise<any> =>
  must(call("POST", "/api/v1/agents", { name: "Ada", ...fields }), 200);

/** Sends the same request many times at once. */
export const together = <T>(times: number, run: (i: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: times }, (_, i) => run(i)));
