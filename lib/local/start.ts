/** `npm start`: the whole system on this machine, over an embedded Postgres or the one of DATABASE_URL. */
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join, resolve } from "node:path";
import type { JWK } from "jose";
import { keysOf } from "../auth/tokens.ts";
import { type Credentials, createApp, listApps } from "./apps.ts";
import { keepDoorKeys } from "./door-keys.ts";
import { lockDataDir } from "./lock.ts";
import { serveNeon } from "./neon.ts";
import type { Runtime } from "./runtime.ts";
import { migrate } from "./schema.ts";
import { newSigningKey } from "./signing-key.ts";
import { watchWorkerd } from "./watchdog.ts";

const API_ROLE = "agentry_api";

const port = Number(process.env.PORT ?? 8787);
const data = resolve(process.env.AGENTRY_DATA ?? ".agentry");
const allowsLoopback = process.env.AGENTRY_ALLOW_LOOPBACK === "1";
const watching = process.argv.includes("--watch");

function stop(message: string): never {
  console.error(message);
  process.exit(1);
}

if (!Number.isInteger(port) || port < 0 || port > 65_535) stop(`PORT must be a port number, not ${process.env.PORT}.`);

/** Writes a file for its owner's eyes, whole or not at all: a start that is killed must not lose the keys. */
function keep(path: string, content: object) {
  writeFileSync(`${path}.new`, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** What this deployment signs and seals with: made on the first start, kept in the data directory. */
type Kept = { issuers: string[]; jwks: { keys: JWK[] }; root_secrets: string[] };

async function readKept(base_url: string): Promise<Kept> {
  const path = join(data, "secrets.json");
  const kept: Kept = existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : await newSecrets();
  kept.issuers = [base_url, ...kept.issuers.filter((issuer) => issuer !== base_url)];
  keep(path, kept);
  return kept;
}

async function newSecrets(): Promise<Kept> {
  return {
    issuers: [],
    jwks: { keys: [await newSigningKey()] },
    root_secrets: [randomBytes(32).toString("base64url")],
  };
}

const isFree = () =>
  new Promise<boolean>((answer) => {
    const probe = createServer();
    probe.once("error", () => answer(false));
    probe.listen(port, "127.0.0.1", () => probe.close(() => answer(true)));
  });

/** The host of the database: the embedded one, and one behind a socket, are on this machine. */
function hostOf(url = ""): string {
  const { hostname = "", searchParams } = URL.parse(url) ?? {};
  const host = searchParams?.get("host") ?? hostname;
  return host === "" || host.startsWith("/") ? "localhost" : host;
}

/** The port is asked for before anything is started, so that a taken one is said in a sentence. */
async function checkPort() {
  // What a killed start has left is gone within moments.
  for (let i = 0; i < 10; i++) {
    if (await isFree()) return;
    await new Promise((wait) => setTimeout(wait, 100));
  }
  for (const step of undo.reverse()) await step();
  stop(`Port ${port} is in use. Stop what listens there, or choose another: PORT=8788 npm start`);
}

/** What undoes each thing that was started; undone in the opposite order, once, whenever a signal comes. */
const undo: (() => unknown)[] = [];
let stopping = false;
async function shutDown() {
  if (stopping) return;
  stopping = true;
  for (const step of undo.reverse()) await step();
  process.exit(0);
}
/** Miniflare adds handlers that exit at once, before the database is closed: ours take their place again. */
function handleSignals() {
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.removeAllListeners(signal).on(signal, shutDown);
}
handleSignals();

mkdirSync(data, { recursive: true, mode: 0o700 });
try {
  undo.push(lockDataDir(data));
} catch (error) {
  stop((error as Error).message);
}
await checkPort();

// What takes longest starts first and together.
const url = process.env.DATABASE_URL;
const [database, { startRuntime }] = await Promise.all([
  url
    ? import("./postgres.ts").then(({ openPostgres }) => openPostgres(url))
    : import("./pglite.ts").then(({ openPglite }) => openPglite(join(data, "pg"))),
  import("./runtime.ts"),
]);
undo.push(() => database.close());
await migrate(database);

const endpoint = await serveNeon(database, { password: randomBytes(16).toString("hex"), roles: [API_ROLE] });
undo.push(() => endpoint.close());
const base_url = `http://127.0.0.1:${port}`;
const kept = await readKept(base_url);
const ROOT_SECRETS = kept.root_secrets.join(",");
await keepDoorKeys(database, ROOT_SECRETS);
const JWKS = JSON.stringify(kept.jwks);
const runtime: Runtime = await startRuntime({
  port,
  dataDir: join(data, "cf"),
  secrets: {
    ISSUERS: kept.issuers.join(","),
    DATABASE_URL: endpoint.url(API_ROLE),
    JWKS,
    PUBLIC_JWKS: JSON.stringify({ keys: keysOf(JWKS).public }),
    ROOT_SECRETS,
  },
  ...(allowsLoopback && { allowLoopback: hostOf(url) }),
  ...(watching && { onReload: (ms: number) => console.log(`Reloaded in ${Math.round(ms)} ms`) }),
});

undo.push(() => runtime.close());
undo.push(watchWorkerd());
handleSignals();

async function readCredentials(): Promise<Credentials & { base_url: string }> {
  const path = join(data, "credentials.json");
  const known: Credentials | null = existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : null;
  // Another DATABASE_URL is another set of apps.
  const isThere = known && (await listApps(database)).some(({ id }) => id === known.app_id);
  const credentials = { ...(isThere ? known : await createApp(database, "Development")), base_url };
  const { app_id, secret_key, publishable_key } = credentials;
  const ordered = { base_url, app_id, secret_key, publishable_key };
  keep(path, ordered);
  return ordered;
}
const credentials = await readCredentials();

console.log(`${JSON.stringify(credentials, null, 2)}

agentry serves on ${base_url} (these are in ${join(data, "credentials.json")}). A first request:

  curl -s ${base_url}/protected/api/v2/developer/apps/${credentials.app_id}/orgs \\
    -H "Authorization: Bearer ${credentials.secret_key}" -H "Content-Type: application/json" \\
    -d '{"name": "Acme", "slug": "acme", "domain": "acme.example"}'
`);
