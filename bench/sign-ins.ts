/**
 * What it takes to be somebody: a request by a cookie beside the same by a token, signing in by a code beside its batch alone,
 * and reading a SAML response beside verifying one RSA signature.
 */
import type { ChildProcess } from "node:child_process";
import { createSign } from "node:crypto";
import { resolve } from "node:path";
import { sha256 } from "../lib/auth/keys.ts";
import { hex, mac } from "../lib/auth/secrets.ts";
import { makeSession } from "../lib/auth/sessions.ts";
import { NONE } from "../lib/db/schema.ts";
import { type Id, newId } from "../lib/ids.ts";
import { aKey, anAssertion, aResponse, sign } from "../tests/sso/provider.ts";
import type { Code } from "./entry.ts";
import type { Request } from "./load.ts";
import type { Cleanup, Product, Workers } from "./system.ts";
import { compare, type Figures, inTurns, type Target, type Way } from "./turns.ts";

const CONNECTIONS = 8;
/** Each signs in once: more than a run asks for. */
const CODES = 20_000;
/** Of one request, so that what a request takes by itself is little beside them. */
const READINGS = 20;
const AIMS = { of_token: 0.95, of_batch: 0.7, rsa: 5 };

type Report = {
  show(name: string, way: Way, figures: Figures, share: number | null): void;
  judge(aim: string, found: string, isMet: boolean): void;
};
const percent = (share: number) => `${Math.round(share * 100)} %`;

export async function measureSignIns(
  child: ChildProcess,
  _cleanup: Cleanup,
  product: Product,
  report: Report,
): Promise<void> {
  const workers = await product.start("agentry_api", { groups: ["agents", "auth"] });
  const bare = await product.start("agentry_api", {
    groups: ["auth"],
    alias: { "auth/index.ts": resolve(import.meta.dirname, "entry.ts") },
  });
  await measureCookies(child, product, workers, report);
  await measureCodes(child, product, workers, bare, report);
  await measureSaml(child, bare, report);
}

/** The same request of the same people, by the one credential and by the other. */
async function measureCookies(child: ChildProcess, product: Product, workers: Workers, { show, judge }: Report) {
  const { app, people, roots, database } = product;
  const signedIn = people.map((person) => ({ ...person, sign_in: newId("sign_in") }));
  await database.query(
    `insert into data.token_families (app_id, sandbox_id, org_id, user_id, id, scopes, access_lifetime_s, method, carrier, idle_s,
        expires_at, ends_at)
      select $1, '-', p.org, p.user, p.sign_in, '{full_access}', 3600, 'email_code', 'browser', 604800, now() + interval '7 days',
        now() + interval '30 days' from jsonb_to_recordset($2::jsonb) p (org text, "user" text, sign_in text)`,
    [app, JSON.stringify(signedIn)],
  );
  const origin = await workers.direct("agents");
  const targetOf = (name: string, requests: Request[]): Target => ({
    ...{ name, way: "direct", origin, pid: workers.pid, requests, connections: CONNECTIONS },
  });
  const get = (agent: string, headers: Record<string, string>): Request => ({
    ...{ method: "GET", path: `/api/v1/agents/${agent}`, headers },
  });
  const token = targetOf(
    "get an agent by a token",
    people.map(({ agent, access_token }) => get(agent, { Authorization: `Bearer ${access_token}` })),
  );
  const cookie = targetOf(
    "get an agent by a cookie",
    await Promise.all(
      signedIn.map(async ({ agent, org, user, sign_in }) => {
        const session = await makeSession(roots, { app, sandbox: NONE, org, user, sign_in });
        return get(agent, { Cookie: `__Host-agentry=${session}`, "Sec-Fetch-Site": "same-origin" });
      }),
    ),
  );
  const found = await inTurns(child, [token, cookie]);
  const share = compare(found.get(cookie)!, found.get(token)!, (a, b) => a.rate / b.rate);
  show(token.name, "direct", found.get(token)!, null);
  show(cookie.name, "direct", found.get(cookie)!, share);
  judge(
    `a request by a cookie: at least ${percent(AIMS.of_token)} of one by a token`,
    percent(share),
    share >= AIMS.of_token,
  );
}

/** Addresses of users of all orgs, each with a code that waits for it. */
async function keepCodes({
  app,
  key,
  people,
  roots,
  database,
}: Product): Promise<{ email: string; code: string; said: Code }[]> {
  const beside = `\\x${Buffer.from(key, "base64url").toString("hex")}`;
  const codes = await Promise.all(
    Array.from({ length: CODES }, async (_, n) => {
      const [email, code] = [`code-${n}@example.com`, String(n).padStart(6, "0")];
      const hash = await sha256(`code ${email}`);
      const [kept, tag] = await Promise.all([
        mac(roots, ["code", app, NONE, email, code].join("."), "once"),
        mac(roots, ["visitor", app, NONE, "email_code", hex(hash)].join("."), "door"),
      ]);
      const said = { app, beside, hash: `\\x${hex(hash)}`, kept: hex(kept), tag: `\\x${hex(tag)}` };
      return { email, code, said, user: newId("user"), org: people[n % people.length]!.org };
    }),
  );
  const rows = JSON.stringify(codes.map(({ said, ...row }) => ({ ...row, hash: said.hash, kept: said.kept })));
  const from = `from jsonb_to_recordset($2::jsonb) r (email text, "user" text, org text, hash bytea, kept text)`;
  await database.query(
    `insert into data.users (app_id, sandbox_id, org_id, id, email, role) select $1, '-', r.org, r.user, r.email, 'member' ${from}`,
    [app, rows],
  );
  await database.query(
    `insert into data.one_time_secrets (app_id, sandbox_id, org_id, kind, hash, payload, expires_at)
      select $1, '-', '-', 'email_code', r.hash, jsonb_build_object('code', r.kept, 'email', r.email), now() + interval '1 day' ${from}`,
    [app, rows],
  );
  await database.exec("vacuum analyze data.users, data.one_time_secrets");
  return codes;
}

/** Every code works once, so the two take turns at one row of them: the loading process asks with the next each time. */
async function measureCodes(
  child: ChildProcess,
  product: Product,
  workers: Workers,
  bare: Workers,
  { show, judge }: Report,
) {
  await product.database.query(
    "insert into data.tenants (app_id, sandbox_id, org_id) values ($1, '-', '-') on conflict do nothing",
    [product.app as Id<"app">],
  );
  const codes = await keepCodes(product);
  const headers = { "x-archastro-api-key": product.secret_key };
  const verify: Target = {
    ...{ name: "sign in by a code", way: "direct", origin: await workers.direct("auth"), pid: workers.pid },
    connections: CONNECTIONS,
    requests: codes.map(({ email, code }) => ({
      ...{ method: "POST", path: "/api/v1/auth/code/verify", headers, body: JSON.stringify({ email, code }) },
    })),
  };
  const batch: Target = {
    ...{ name: verify.name, way: "floor", origin: await bare.direct("auth"), pid: bare.pid, connections: CONNECTIONS },
    requests: codes.map(({ said }) => ({ method: "POST", path: "/verify", body: JSON.stringify(said) })),
  };
  const found = await inTurns(child, [verify, batch]);
  const share = compare(found.get(verify)!, found.get(batch)!, (a, b) => a.rate / b.rate);
  show(verify.name, "direct", found.get(verify)!, share);
  show(batch.name, "floor", found.get(batch)!, null);
  judge(
    `signing in by a code: at least ${percent(AIMS.of_batch)} of its batch's rate`,
    percent(share),
    share >= AIMS.of_batch,
  );
}

/** CPU of the process alone: what a request takes without any reading is taken off. */
async function measureSaml(child: ChildProcess, bare: Workers, { show, judge }: Report) {
  const key = await aKey();
  const now = Date.now();
  const said = {
    ...{ now, issuer: "https://idp.example", in_response_to: "_request" },
    ...{ acs_url: "https://api.example/acs", sp_entity_id: "https://api.example/metadata" },
  };
  const xml = sign(aResponse(said, anAssertion(said)), "_response", key);
  const saml = { ...said, certificate: key.certificate, response: Buffer.from(xml).toString("base64") };
  const text = "x".repeat(600);
  const signature = createSign("sha256").update(text).sign(key.pem, "base64");
  const spki = key.publicPem.replace(/-----[^-]+-----|\s/g, "");
  const origin = await bare.direct("auth");
  const targetOf = (path: string, times: number, body: object): Target => ({
    ...{ name: `${path}, ${times} times`, way: "bare", origin, pid: bare.pid, connections: 1 },
    requests: [{ method: "POST", path: `/${path}/${times}`, body: JSON.stringify(body) }],
  });
  const rsa = { spki, signature, text };
  const targets = [
    ...[targetOf("saml", READINGS, saml), targetOf("saml", 0, saml)],
    ...[targetOf("rsa", READINGS, rsa), targetOf("rsa", 0, rsa)],
  ];
  const found = await inTurns(child, targets);
  const [taken, nothing, verified, none] = targets.map((target) => found.get(target)!);
  for (const target of targets) show(target.name, target.way, found.get(target)!, null);
  if ([taken, nothing, verified, none].some((figures) => figures!.cpu_ms === null)) return;
  const [one, rsaAlone] = [taken!.cpu_ms! - nothing!.cpu_ms!, verified!.cpu_ms! - none!.cpu_ms!].map(
    (ms) => ms / READINGS,
  );
  judge(
    `a SAML response: at most ${AIMS.rsa} times the CPU of one RSA signature`,
    `${(one! / rsaAlone!).toFixed(1)} times, ${one!.toFixed(2)} of ${rsaAlone!.toFixed(2)} ms`,
    one! / rsaAlone! <= AIMS.rsa,
  );
}
