/** What the bench measures: throw-away databases with many rows in them, and Workers over them. */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { base64url, exportJWK, generateKeyPair } from "jose";
import { parseKey } from "../lib/auth/keys.ts";
import { type AccessToken, signToken } from "../lib/auth/tokens.ts";
import { NONE } from "../lib/db/schema.ts";
import type { Id } from "../lib/ids.ts";
import { keepDoorKeys } from "../lib/local/door-keys.ts";
import type { Database } from "../lib/local/neon.ts";
import { openPostgres } from "../lib/local/postgres.ts";
import type { Runtime, RuntimeOptions, Secrets } from "../lib/local/runtime.ts";
import { childrenOf } from "./processes.ts";

const HERE = resolve(import.meta.dirname, "..");

/** A tenth of the agents has `tools` each; another tenth has an access list. */
export const SEED = { orgs: 200, users: 2_000, agents: 100_000, tokens: 100_000, tools: 10 };

/** A person of an org, with a live token and agents of that org. */
export type Person = {
  org: Id<"org">;
  user: Id<"user">;
  token: Id<"token">;
  /** One with tools. */
  agent: Id<"agent">;
  /** One whose access list names the person. */
  listed: Id<"agent">;
  /** Some that take new env vars: a hundred is all that one may have. */
  holders: Id<"agent">[];
  access_token: string;
};
/** Where requests go, past Miniflare's entry to the Worker itself, and the process that answers them. */
export type Workers = { entry: string; direct(group: string): Promise<string>; pid: number };
/** The product over a database of its own. */
export type Product = {
  app: Id<"app">;
  secret_key: string;
  /** The secret key's hash, in base64url. */
  key: string;
  /** Its root secrets. */
  roots: string;
  people: Person[];
  product: Workers;
  database: Database;
  /** Starts other Workers over the same endpoint, as a role. */
  start(role: string, options: Omit<RuntimeOptions, "port" | "secrets">): Promise<Workers>;
  /** Requests that the endpoint has had so far, and how long the last one and its answer were, in characters. */
  trips(): number;
  sizes(): Sizes;
};
export type Sizes = { asked: number; answered: number };
export type System = Product & {
  /** bench/floor.ts as agentry_api, and as a role that bypasses row security. */
  walls: Workers;
  floor: Workers;
  /** The same over an endpoint that answers as much as it is asked for, and does nothing else. */
  bare: Workers;
};

/** Undoes what was done, last first; once, however often it is asked. */
export class Cleanup {
  readonly #steps: (() => Promise<unknown>)[] = [];
  #done: Promise<void> | undefined;

  add(step: () => Promise<unknown>) {
    this.#steps.push(step);
  }

  run(): Promise<void> {
    this.#done ??= (async () => {
      for (const step of this.#steps.reverse()) {
        await step().catch((error: Error) => console.error(`could not clean up: ${error.message}`));
      }
    })();
    return this.#done;
  }

  get hasBegun(): boolean {
    return this.#done !== undefined;
  }

  /** On Ctrl-C too. Miniflare adds handlers that exit at once: asked again after each start, this takes their place. */
  onSignals() {
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      process.removeAllListeners(signal).once(signal, () => void this.run().then(() => process.exit(130)));
    }
  }
}

/**
 * Where objects keep what they know, in memory where the machine has a place for that: how long its disk takes to sync is no
 * figure of ours.
 */
export function newObjectsDir(cleanup: Cleanup): string {
  const dir = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "agentry-bench-objects-"));
  cleanup.add(async () => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** The text of an id of seeded rows: numbers are base62, and sort before every id that is made. */
const idOf = (prefix: string, n: string) => `'${prefix}_' || lpad((${n})::text, 22, '0')`;

/** Which tenth of its org's agents one is in. */
const tenth = (n: string) => `(${n} / ${SEED.orgs} % 10)`;

/** Rows as they would be after some years: an org's agents and tokens lie scattered among all the others'. */
async function seed(database: Database, app: string) {
  const owner = (n: string) => `'${app}', '-', ${idOf("org", `${n} % ${SEED.orgs}`)}`;
  const each = (count: number) => `from generate_series(0, ${count - 1}) n`;
  const [had] = await database.query<{ tools: string | null; methods: number }>(
    `select to_regclass('data.agent_tools') as tools, count(*)::int as methods from information_schema.columns
      where (table_schema, table_name, column_name) = ('data', 'token_families', 'method')`,
  );
  // Of an older commit a sign-in says less of itself.
  const [said, values] = had!.methods
    ? [", method, carrier, idle_s, ends_at", ", 'token', 'api', 2592000, now() + interval '365 days'"]
    : ["", ""];
  // Without the triggers of foreign keys, which would take minutes.
  await database.exec(`
    set session_replication_role = replica;
    insert into data.tenants (app_id, sandbox_id, org_id) select ${owner("n")} ${each(SEED.orgs)};
    insert into data.orgs (id, app_id, sandbox_id, name, slug, domain)
      select ${idOf("org", "n")}, '${app}', '-', 'Org ' || n, 'seed-' || n, 'seed-' || n || '.example' ${each(SEED.orgs)};
    insert into data.users (app_id, sandbox_id, org_id, id, email, name, role)
      select ${owner("n")}, ${idOf("usr", "n")}, 'seed-' || n || '@example.com', 'User ' || n, 'member' ${each(SEED.users)};
    insert into data.agents (app_id, sandbox_id, org_id, id, name, identity, default_model, metadata, acl)
      select ${owner("n")}, ${idOf("agi", "n")}, 'Agent ' || n, repeat('You answer what customers ask. ', 5),
        'a-model', jsonb_build_object('n', n), case when ${tenth("n")} = 1 then app.acl_patch(null, (
          select jsonb_agg(jsonb_build_object('principal_type', 'user', 'principal', ${idOf("usr", `n % ${SEED.orgs} + ${SEED.orgs} * u`)},
            'actions', '["read", "write"]'::jsonb)) from generate_series(0, 4) u), '[]') end ${each(SEED.agents)};
    insert into data.token_families
        (app_id, sandbox_id, org_id, user_id, id, token_id, scopes, access_lifetime_s, expires_at${said})
      select ${owner("n")}, ${idOf("usr", `n % ${SEED.users}`)}, ${idOf("saf", "n")}, ${idOf("sat", "n")},
        '{full_access}', 86400, now() + interval '30 days'${values} ${each(SEED.tokens)};
    insert into data.tokens (app_id, sandbox_id, org_id, user_id, family_id, id, scopes, expires_at)
      select ${owner("n")}, ${idOf("usr", `n % ${SEED.users}`)}, ${idOf("saf", "n")}, ${idOf("sat", "n")},
        '{full_access}', now() + interval '1 day' ${each(SEED.tokens)};
    insert into data.activity_feed_entries (app_id, sandbox_id, org_id, id, kind, title)
      select ${owner("n")}, ${idOf("afe", "n")}, 'agent.created', 'Agent created: ' || n ${each(SEED.agents)};`);
  // An older commit has none.
  if (had!.tools) {
    await database.exec(`
    set session_replication_role = replica;
    insert into data.agent_tools
        (app_id, sandbox_id, org_id, id, agent_id, kind, status, name, description, handler_type, parameters)
      select ${owner("n")}, ${idOf("ati", `n * ${SEED.tools} + t`)}, ${idOf("agi", "n")}, 'custom', 'active', 'look_up_' || t,
        repeat('Looks up an order by its number. ', 3), 'script',
        '{"type": "object", "properties": {"order": {"type": "string", "description": "As on the receipt"}}}'
        from generate_series(0, ${SEED.agents - 1}) n, generate_series(0, ${SEED.tools - 1}) t where ${tenth("n")} = 0;`);
  }
  await database.exec("vacuum analyze");
}

/** How many people have agents that take env vars, and how many of these. */
const [HOLDING, HELD] = [50, 20];

/** One person an org, with a signed token. */
async function signPeople(secrets: Secrets, app: Id<"app">): Promise<Person[]> {
  const at = (prefix: string, n: number) => `${prefix}_${String(n).padStart(22, "0")}`;
  const iat = Math.floor(Date.now() / 1000);
  return Promise.all(
    Array.from({ length: SEED.orgs }, async (_, n) => {
      const [org, user, token] = [at("org", n) as Id<"org">, at("usr", n) as Id<"user">, at("sat", n) as Id<"token">];
      const agentOf = (i: number) =>
        at("agi", n + SEED.orgs * ((n * 10 + i) % (SEED.agents / SEED.orgs))) as Id<"agent">;
      const whose: AccessToken = { app, sandbox: NONE, org, user, token, scopes: ["full_access"] };
      const access_token = await signToken(secrets, whose, { iat, exp: iat + 86_400 });
      const holders = n < HOLDING ? Array.from({ length: HELD }, (_, i) => agentOf(i * 10 + 2)) : [];
      return { org, user, token, agent: agentOf(0), listed: agentOf(1), holders, access_token };
    }),
  );
}

async function newSecrets(): Promise<Omit<Secrets, "DATABASE_URL">> {
  const { privateKey, publicKey } = await generateKeyPair("ES256", { extractable: true });
  return {
    ISSUERS: "http://agentry.bench",
    JWKS: JSON.stringify({ keys: [{ ...(await exportJWK(privateKey)), kid: "one" }] }),
    PUBLIC_JWKS: JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: "one" }] }),
    ROOT_SECRETS: randomBytes(32).toString("base64url"),
  };
}

/** A database that nobody else uses, on the server of `url`. */
async function openDatabase(cleanup: Cleanup, url: string, open: typeof openPostgres) {
  const server = await openPostgres(url);
  cleanup.add(() => server.close());
  const [me] = await server.query<{ rolsuper: boolean }>("select rolsuper from pg_roles where rolname = current_user");
  if (!me?.rolsuper)
    throw new Error("DATABASE_URL must be a superuser's: the bench makes a role that bypasses row security.");
  const name = `agentry_bench_${randomBytes(6).toString("hex")}`;
  await server.exec(`create database ${name}`);
  cleanup.add(() => server.exec(`drop database ${name} with (force)`));
  const own = new URL(url);
  own.pathname = name;
  const database = await open(own.href);
  cleanup.add(() => database.close());
  return { server, database, name };
}

/** An endpoint of no database: it reads what it is sent, and answers as many characters as its address says. */
async function serveSizes(cleanup: Cleanup): Promise<string> {
  const server = createServer((request, response) => {
    request.resume().on("end", () => response.end("x".repeat(Number(request.url!.slice(1)))));
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  cleanup.add(async () => server.closeAllConnections());
  cleanup.add(async () => server.close());
  return `postgres://none:none@127.0.0.1:${(server.address() as AddressInfo).port}/none`;
}

/** The product as the code under `root` is it, over a database of its own with rows in it. */
export async function startProduct(
  cleanup: Cleanup,
  url: string,
  { root = HERE, groups }: { root?: string; groups?: string[] } = {},
): Promise<Product> {
  // Of the same names in whatever version: what is said of their types here is this one's.
  const { openPostgres: open } = (await import(
    join(root, "lib/local/postgres.ts")
  )) as typeof import("../lib/local/postgres.ts");
  const { migrate } = (await import(join(root, "lib/local/schema.ts"))) as typeof import("../lib/local/schema.ts");
  const { createApp } = (await import(join(root, "lib/local/apps.ts"))) as typeof import("../lib/local/apps.ts");
  const { serveNeon } = (await import(join(root, "lib/local/neon.ts"))) as typeof import("../lib/local/neon.ts");
  const { startRuntime } = (await import(
    join(root, "lib/local/runtime.ts")
  )) as typeof import("../lib/local/runtime.ts");
  const { server, database, name } = await openDatabase(cleanup, url, open);
  await migrate(database);
  const { app_id, secret_key } = await createApp(database, "Bench");
  await seed(database, app_id);
  // The bundle that agents are made from again and again brings one.
  const settings = { quotas: { computers: 100_000 } };
  await database.query("update data.apps set settings = $2 where id = $1", [app_id, JSON.stringify(settings)]);
  // Bypasses row security: what the floor asks as.
  await server.exec(`create role ${name} login bypassrls in role agentry_api`);
  cleanup.add(() => database.exec(`drop role ${name}`));

  let trips = 0;
  let sizes = (): Sizes => ({ asked: 0, answered: 0 });
  const counted: Database = {
    ...database,
    run: async (...request) => {
      trips++;
      const results = await database.run(...request);
      sizes = () => ({ asked: JSON.stringify(request[1]).length, answered: JSON.stringify(results).length });
      return results;
    },
  };
  const password = randomBytes(16).toString("hex");
  const endpoint = await serveNeon(counted, { password, roles: ["agentry_api", name] });
  cleanup.add(() => endpoint.close());
  const secrets = await newSecrets();
  // Objects come by a door of their own, which an older commit may not have.
  if (root === HERE) await keepDoorKeys(database, secrets.ROOT_SECRETS);
  const bare = await serveSizes(cleanup);
  const urlOf = (role: string) => (role === "bare" ? bare : endpoint.url(role === "floor" ? name : role));
  const as = (role: string): Secrets => ({ ...secrets, DATABASE_URL: urlOf(role) });
  const start = async (role: string, options: Omit<RuntimeOptions, "port" | "secrets">): Promise<Workers> => {
    const before = childrenOf(process.pid, "workerd");
    const runtime: Runtime = await startRuntime({ port: 0, direct: true, ...options, secrets: as(role) });
    cleanup.onSignals();
    cleanup.add(() => runtime.close());
    const pid = childrenOf(process.pid, "workerd").find((found) => !before.includes(found)) ?? 0;
    return { entry: runtime.url.origin, direct: async (group) => (await runtime.directUrl(group)).origin, pid };
  };
  const key = await parseKey(secret_key);
  return {
    app: app_id,
    secret_key,
    key: base64url.encode(key!.hash),
    roots: secrets.ROOT_SECRETS,
    people: await signPeople(as("agentry_api"), app_id),
    product: await start("agentry_api", groups ? { groups } : {}),
    database,
    start,
    trips: () => trips,
    sizes: () => sizes(),
  };
}

export async function startSystem(cleanup: Cleanup, url: string): Promise<System> {
  const system = await startProduct(cleanup, url, { groups: ["agents", "configs", "developer"] });
  // The floors take the place of a Worker that holds the private keys; they are bundled as it is.
  const floors = { groups: ["developer"], alias: { "developer/index.ts": resolve(import.meta.dirname, "floor.ts") } };
  return {
    ...system,
    walls: await system.start("agentry_api", floors),
    floor: await system.start("floor", floors),
    bare: await system.start("bare", floors),
  };
}

/**
 * The product as it was at a commit, with the packages of today. Null where git doesn't have the commit: a shallow
 * clone, or none.
 */
export async function startCommit(
  cleanup: Cleanup,
  url: string,
  commit: string,
  groups = ["developer"],
): Promise<Product | null> {
  const root = mkdtempSync(join(tmpdir(), "agentry-bench-"));
  cleanup.add(async () => rmSync(root, { recursive: true }));
  try {
    const archive = execFileSync("git", ["archive", commit], {
      cwd: HERE,
      maxBuffer: 2 ** 28,
      stdio: ["ignore", "pipe", "ignore"],
    });
    execFileSync("tar", ["-x", "-C", root], { input: archive });
  } catch {
    return null;
  }
  symlinkSync(join(HERE, "node_modules"), join(root, "node_modules"));
  return startProduct(cleanup, url, { root, groups });
}
