/**
 * `npm run bench -- hostile [part of an attack's name]`: what the others feel while one sends the worst that is known, in a
 * loop. The others are another org's GET of an agent over one connection. Right before each attack its 99th percentile is
 * taken twice, three times over: quiet, and beside as many connections of the attacker's that ask for something harmless. The attack is held against the
 * second: load, Postgres, its endpoint and all Workers share this machine's processors (and all Workers one thread of
 * workerd), so whoever asks at all costs the others some time. What an attack costs is what it adds to that.
 */
import { fork, spawnSync } from "node:child_process";
import { cpus, loadavg } from "node:os";
import { resolve } from "node:path";
import fc from "fast-check";
import { newKey } from "../lib/auth/keys.ts";
import { NONE } from "../lib/db/schema.ts";
import { newId } from "../lib/ids.ts";
import { hostile } from "../tests/lib/http/hostile.ts";
import type { Measured, Request } from "./load.ts";
import { operationsOf } from "./operations.ts";
import { type Cleanup, type Product, startProduct } from "./system.ts";
import { load, print, quantile } from "./turns.ts";

const SECONDS = 4;
const AIM = 3;
/** Of so many rounds the middle one counts: a machine that stumbles once says nothing of an attack. */
const ROUNDS = 3;
/** An attack is over when the others' median is again so near to what it was, or after so many looks. */
const SETTLED = 2;
const LOOKS = 20;
/** Of the attacker's own org: what a search reads, and what a delete takes with it. */
const AGENTS = 200_000;
const ORGS = 4;
const GENERATED = 200;
/** Of those, how many are checked by themselves, in Node: see tests/lib/http/bodies.test.ts. */
const CHECKED = 10_000;

/** `statuses`: what it must be answered, or else it isn't the attack that its name says; `once`: it can't be sent again. */
type Attack = { name: string; connections: number; requests: Request[]; statuses: RegExp; once?: true };

const list = (n: number, item: string) => `[${Array(n).fill(item)}]`;
const post = (path: string, token: string, body: string): Request => ({
  method: "POST",
  path,
  headers: { Authorization: `Bearer ${token}` },
  body,
});

/** What the scripts' table offers at its worst; each runs until its bounds end it. */
const scripts: [name: string, script: string][] = [
  [
    "a zone in many spellings",
    `let spell = fn(i) { string.slice("EUROPE/BERLIN", 0, i % 13) + string.slice("europe/berlin", i % 13) }
array.map(array.range(0, 5000), fn(i) { datetime.format("2026-01-02", "YYYY", spell(i)) })`,
  ],
  [
    "slug of U+FDFA",
    'let t = string.repeat("\ufdfa", 100000)\narray.map(array.range(0, 1000), fn(i) { string.slug(t) })',
  ],
  [
    "uppercase of U+0390",
    'let t = string.repeat("\u0390", 100000)\narray.map(array.range(0, 1000), fn(i) { string.uppercase(t) })',
  ],
  ["parseJson of {},{},…", 'string.parseJson("[" + string.repeat("{},", 300000) + "{}]")'],
  ["computing for as long as it may", "let f = fn(n) { if (n < 2) { n } else { f(n - 1) + f(n - 2) } }\nf(60)"],
  ["long lists of long lists", "let l = array.range(0, 1000)\narray.map(l, fn(i) { array.map(l, fn(j) { i * j }) })"],
];

/** An org with so many agents, all of whose names a search has to look at. */
async function anOrg({ app, database }: Product, agents: number): Promise<string> {
  const org = newId("org");
  await database.exec(`set session_replication_role = replica;
    insert into data.tenants values ('${app}', '-', '${org}');
    insert into data.orgs (app_id, sandbox_id, id, name, slug, domain)
      values ('${app}', '-', '${org}', 'Hostile', '${org}', '${org}');
    insert into data.agents (app_id, sandbox_id, org_id, id, name)
      select '${app}', '-', '${org}', '${org.replace("org_", "agi_").slice(0, 16)}' || lpad(n::text, 10, '0'), repeat('è', 150)
        from generate_series(1, ${agents}) n`);
  return org;
}

async function attacksOn(system: Product, entry: string): Promise<Attack[]> {
  const { app, secret_key, people } = system;
  const developer = `/protected/api/v2/developer/apps/${app}`;
  const forged = (await newKey("secret", app, NONE)).full_key;
  const [member] = people as [Product["people"][number]];
  const runs = post("/api/v1/scripts/run", member.access_token, "");
  const ask = async ({ method, path, headers, body }: Request) => {
    const response = await fetch(entry + path, {
      method,
      headers: { ...headers, "Content-Type": "application/json" },
      body,
    });
    return { status: response.status, body: (await response.json()) as { id: string; access_token: string } };
  };

  const searched = await anOrg(system, AGENTS);
  const email = `${searched}@example.com`;
  const viewer = await ask(
    post(`${developer}/users`, secret_key, JSON.stringify({ email, org: searched, role: "viewer" })),
  );
  const minted = await ask(post(`${developer}/users/${viewer.body.id}/tokens`, secret_key, "{}"));
  // The longest identity that is taken: pages of a hundred of them.
  for (const length of [100_000, 20_000, 5_000]) {
    const big = post(
      "/api/v1/agents",
      member.access_token,
      JSON.stringify({ name: "Big", identity: "漢".repeat(length) }),
    );
    if ((await ask(big)).status !== 201) continue;
    await Promise.all(Array.from({ length: 99 }, () => ask(big)));
    break;
  }
  const { id: shared } = (await ask(post("/api/v1/agents", member.access_token, '{"name":"Shared"}'))).body;
  const doomed = await Promise.all(Array.from({ length: ORGS }, () => anOrg(system, AGENTS / 10)));
  await system.database.exec("analyze");
  const grants = Array.from({ length: 200 }, () => ({
    principal_type: "user",
    principal: newId("user"),
    actions: ["read", "write"],
  }));
  const addressOf = (path: string) =>
    path
      .replace(":app_id", app)
      .replace(":user_id", member.user)
      .replace(":agent", shared)
      .replace(/:\w+/g, newId("org"));

  return [
    ...[60, 300, 1500].map(
      (kb): Attack => ({
        name: `acl.grants of nothing, ${kb} KB, forged key`,
        statuses: kb * 1000 < 65_536 ? /422/ : /401/,
        connections: 2,
        requests: [post("/api/v1/agents", forged, `{"acl":{"grants":${list((kb * 1000) / 3, "{}")}}}`)],
      }),
    ),
    {
      name: "refresh with unknown names, 852 KB",
      statuses: /413/,
      connections: 2,
      requests: [post("/api/v1/auth/refresh", "", `{${Array.from({ length: 60_000 }, (_, i) => `"name${i}":0`)}}`)],
    },
    {
      name: "refresh with unknown names, 60 KB",
      statuses: /413/,
      connections: 2,
      requests: [post("/api/v1/auth/refresh", "", `{${Array.from({ length: 5_000 }, (_, i) => `"n${i}":0`)}}`)],
    },
    // As many as are read.
    {
      name: "refresh with unknown names, 2 KB",
      statuses: /422/,
      connections: 2,
      requests: [post("/api/v1/auth/refresh", "", `{${Array.from({ length: 235 }, (_, i) => `"n${i}":0`)}}`)],
    },
    {
      name: 'mint with scopes of "", 300 KB',
      statuses: /422/,
      connections: 2,
      requests: [post(`${developer}/users/${member.user}/tokens`, secret_key, `{"scopes":${list(100_000, '""')}}`)],
    },
    {
      name: `${GENERATED} generated bodies up to 1 MB`,
      statuses: /4\d\d/,
      connections: 2,
      requests: fc.sample(hostile, { numRuns: GENERATED, seed: 1 }).map(({ route, body }) => ({
        ...post(addressOf(route.path), route.path.includes("/developer/") ? secret_key : member.access_token, body),
        method: route.method as Request["method"],
      })),
    },
    {
      name: "pages of big identities",
      statuses: /200/,
      connections: 4,
      requests: [{ ...runs, method: "GET", path: "/api/v1/agents?page_size=100", body: undefined }],
    },
    {
      name: "acl.add of 200 more",
      statuses: /200.*422/,
      connections: 4,
      requests: [
        {
          ...post(`/api/v1/agents/${shared}`, member.access_token, JSON.stringify({ acl: { add: grants } })),
          method: "PATCH",
        },
        {
          ...post(
            `/api/v1/agents/${shared}`,
            member.access_token,
            JSON.stringify({ acl: { add: [{ ...grants[0], principal: member.user }] } }),
          ),
          method: "PATCH",
        },
      ],
    },
    {
      name: `search of é over ${AGENTS} agents`,
      statuses: /200|429|503/,
      connections: 24,
      requests: [
        {
          method: "GET",
          path: `/api/v1/agents?search=${encodeURIComponent("é".repeat(100))}`,
          headers: { Authorization: `Bearer ${minted.body.access_token}` },
        },
      ],
    },
    {
      name: `deletes of orgs of ${AGENTS / 10} agents`,
      once: true,
      statuses: /20\d/,
      connections: 2,
      requests: doomed.map((org) => ({
        method: "DELETE",
        path: `${developer}/orgs/${org}`,
        headers: { Authorization: `Bearer ${secret_key}` },
      })),
    },
    ...scripts.map(
      ([name, script]): Attack => ({
        name: `script: ${name}`,
        statuses: /200|429|cut off/,
        connections: 4,
        requests: [{ ...runs, body: JSON.stringify({ script }) }],
      }),
    ),
  ];
}

const told = (statuses: Measured["statuses"]) =>
  Object.entries(statuses)
    .map(([status, n]) => `${status}: ${n}`)
    .join(", ");

/** Without an answer it is without end. */
const p = ({ latencies_ms }: Measured, share: number) =>
  latencies_ms.length ? quantile(latencies_ms, share) : Number.POSITIVE_INFINITY;

/** False where an attack took too much from the others, or wasn't what its name says. */
export async function benchHostile(cleanup: Cleanup, url: string, only = ""): Promise<boolean> {
  console.log("Seeding …");
  const system = await startProduct(cleanup, url);
  const { entry, pid } = system.product;
  const [victims, attackers] = [0, 1].map(() => {
    const child = fork(resolve(import.meta.dirname, "load.ts"));
    cleanup.add(async () => child.kill());
    return child;
  }) as [ReturnType<typeof fork>, ReturnType<typeof fork>];
  const attacks = (await attacksOn(system, entry)).filter(({ name }) => name.includes(only));
  // Of all orgs but the attacker's.
  const ask = (people: Product["people"]) =>
    operationsOf({ ...system, people }).find(({ name }) => name === "get an agent")!.product;
  const all = { origin: entry, seconds: SECONDS, pid, attacks: true };
  const victim = { ...all, requests: ask(system.people.slice(1)), connections: 1 };
  const harmless = ask(system.people.slice(0, 1));
  const beside = async (requests: Request[], connections: number) => {
    const asked = { ...all, requests, connections };
    const [felt, { statuses }] = await Promise.all([load(victims, victim), load(attackers, asked)]);
    return { felt, statuses: told(statuses) };
  };
  /** An attack's last requests go on for a while after it: in Postgres, and in the Workers. */
  const settle = async (usual: number) => {
    for (let i = 0; i < LOOKS; i++) {
      const { latencies_ms } = await load(victims, { ...victim, seconds: 1 });
      const [busy] = await system.database.query<{ n: number }>(`select count(*)::int4 as n from pg_stat_activity
        where datname = current_database() and state = 'active' and pid <> pg_backend_pid()`);
      if (latencies_ms.length && quantile(latencies_ms, 0.5) <= SETTLED * usual && !busy?.n) return;
    }
  };

  await load(victims, victim);
  const usual = p(await load(victims, victim), 0.5);
  const rows = [["attack", "its statuses", "quiet p99 ms", "harmless", "attacked", "of quiet", "of harmless", ""]];
  for (const { name, connections, requests, statuses, once } of attacks) {
    const rounds = [];
    const failures: [string, number][] = [];
    for (let i = 0; i < (once ? 1 : ROUNDS); i++) {
      await settle(usual);
      const quiet = await load(victims, victim);
      const floor = await beside(harmless, connections);
      const { felt, statuses: answers } = await beside(requests, connections);
      failures.push(...Object.entries(felt.statuses).filter(([status]) => status !== "200"));
      const [a, b, c] = [quiet, floor.felt, felt].map((measured) => p(measured, 0.99)) as [number, number, number];
      rounds.push({ a, b, c, answers, share: c / Math.max(a, b) });
    }
    const { a, b, c, answers } = rounds.sort((one, other) => one.share - other.share)[(rounds.length - 1) / 2]!;
    const verdicts = [
      c < AIM * Math.max(a, b) ? "" : "MISSED",
      failures.length ? `others were refused: ${told(Object.fromEntries(failures))}` : "",
      rounds.every((round) => statuses.test(round.answers)) ? "" : "not the attack that it should be",
    ];
    const figures = [a, b, c, c / a, c / b].map((figure) => figure.toFixed(1));
    rows.push([name, answers, ...figures, verdicts.filter(Boolean).join("; ") || "met"]);
    console.log(`${rows.length - 1} of ${attacks.length}: ${rows.at(-1)!.join(", ")}`);
  }
  print(rows);
  console.log(`
Aimed at: another org's GET stays below ${AIM} times what it is beside harmless requests, and none of them fails.
Load average ${loadavg()[0]!.toFixed(1)} on ${cpus().length} processors.`);
  console.log(`\n${CHECKED} generated bodies, each at most three times its JSON.parse or 10 ms:`);
  const bodies = ["vitest", "run", "tests/lib/http/bodies.test.ts", "-t", "whatever stands"];
  const checked = spawnSync("npx", bodies, { env: { ...process.env, HOSTILE_BODIES: `${CHECKED}` }, stdio: "inherit" });
  return rows.slice(1).every((row) => row.at(-1) === "met") && checked.status === 0;
}
