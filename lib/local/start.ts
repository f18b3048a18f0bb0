/** `npm start`: the whole system on this machine, over an embedded Postgres or the one of DATABASE_URL. */
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { enableCompileCache } from "node:module";
import { createServer } from "node:net";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import type { JWK } from "jose";
import type { Computers, Models, Telemetry } from "../env.ts";
import type { Credentials } from "./apps.ts";
import { CACHE } from "./cache.ts";
import { end, fail, onEnd, openDataDir, openEmbedded, openNamed, Refusal } from "./command.ts";
import type { Database } from "./neon.ts";
import { watchWorkerd } from "./watchdog.ts";

const API_ROLE = "agentry_api";

/** The kept secrets of this deployment: what it signs and seals with, made on the first start. */
type Kept = { issuers: string[]; jwks: { keys: JWK[] }; root_secrets: string[]; saml_keys?: { keys: JWK[] } };

/** Writes a file for its owner's eyes, whole or not at all: a start that is killed must not lose the keys. */
function keep(path: string, content: object) {
  writeFileSync(`${path}.new`, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** What such a file holds; null without one. */
function readJson<T>(path: string, otherwise: string): T | null {
  if (!existsSync(path)) return null;
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    throw new Refusal(`${path} can't be read as JSON. Mend it, or delete it: ${otherwise}`);
  }
}

async function readSecrets(data: string, base_url: string): Promise<Kept> {
  const path = join(data, "secrets.json");
  const kept = readJson<Kept>(path, "new keys are made then, and no token made before works any more.") ?? {
    issuers: [],
    jwks: { keys: [await (await import("./signing-key.ts")).newSigningKey()] },
    root_secrets: [randomBytes(32).toString("base64url")],
  };
  kept.issuers = [base_url, ...kept.issuers.filter((issuer) => issuer !== base_url)];
  // A data directory of before there was SSO has none.
  kept.saml_keys ??= { keys: [await (await import("./sp-key.ts")).newSpKey()] };
  keep(path, kept);
  return kept;
}

const isFree = (port: number) =>
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
async function readPort(): Promise<number> {
  const port = Number(process.env.PORT ?? 8787);
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new Refusal(`PORT must be a port number, not ${process.env.PORT}.`);
  }
  // What a killed start has left is gone within moments.
  for (let i = 0; i < 10; i++) {
    if (await isFree(port)) return port;
    await new Promise((wait) => setTimeout(wait, 100));
  }
  let other = port < 65_535 ? port + 1 : 8787;
  while (!(await isFree(other))) other++;
  throw new Refusal(`Port ${port} is in use. Stop what listens there, or choose another: PORT=${other} npm start`);
}

/** Miniflare adds handlers that exit at once, before the database is closed: ours take their place again. */
function handleSignals() {
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.removeAllListeners(signal).on(signal, () => end(0));
}

/** The app of the data directory, made on the first start. Another DATABASE_URL is another set of apps. */
async function readCredentials(data: string, database: Database, base_url: string) {
  const { createApp, listApps } = await import("./apps.ts");
  const path = join(data, "credentials.json");
  const known = readJson<Credentials>(path, "another app is made then.");
  const isThere = known && (await listApps(database)).some(({ id }) => id === known.app_id);
  const { app_id, secret_key, publishable_key } = isThere ? known : await createApp(database, "Development");
  const credentials = { base_url, app_id, secret_key, publishable_key };
  keep(path, credentials);
  return credentials;
}

async function start() {
  console.log("agentry is starting …");
  // What is imported from here on, most of it the packages, is compiled once a checkout.
  enableCompileCache(join(CACHE, "compiled"));
  const data = openDataDir();
  const port = await readPort();
  const base_url = `http://127.0.0.1:${port}`;
  const kept = await readSecrets(data, base_url);
  const ROOT_SECRETS = kept.root_secrets.join(",");

  // The database and the Workers start side by side: what is asked before the database is there waits for it.
  const url = process.env.DATABASE_URL;
  const opening = url ? openNamed("DATABASE_URL", url) : openEmbedded(data);
  const ready = opening.then(async (database) => {
    performance.mark("database opened");
    const [{ migrate }, { keepDoorKeys }] = await Promise.all([import("./schema.ts"), import("./door-keys.ts")]);
    await migrate(database);
    await keepDoorKeys(database, ROOT_SECRETS);
    const credentials = await readCredentials(data, database, base_url);
    performance.mark("database ready");
    return { database, credentials };
  });
  const serving = serveWorkers(data, port, kept, ready);
  const [{ credentials }] = await Promise.all([ready, serving]);
  const { showMailbox } = await import("./mailbox.ts");
  const mailbox = await showMailbox(join(data, "mail"));
  onEnd(() => mailbox.server.close());

  console.log(`${JSON.stringify(credentials, null, 2)}

agentry serves on ${base_url} (these are in ${join(data, "credentials.json")}). A first request:

  curl -s ${base_url}/protected/api/v2/developer/apps/${credentials.app_id}/orgs \\
    -H "Authorization: Bearer ${credentials.secret_key}" -H "Content-Type: application/json" \\
    -d '{"name": "Acme", "slug": "acme", "domain": "acme.example"}'

People of an org sign in on ${base_url}/login/${credentials.app_id}
What is mailed to them is on ${mailbox.url}
`);
}

async function serveWorkers(data: string, port: number, kept: Kept, ready: Promise<{ database: Database }>) {
  const [{ startRuntime }, { serveNeon }, { keysOf }, { computersOf, modelsOf, telemetryOf }] = await Promise.all([
    import("./runtime.ts"),
    import("./neon.ts"),
    import("../auth/tokens.ts"),
    import("../env.ts"),
  ]);
  performance.mark("Workers' tools loaded");
  const run: Database["run"] = async (...request) => (await ready).database.run(...request);
  const password = randomBytes(16).toString("hex");
  const endpoint = await serveNeon({ run } as Database, { password, roles: [API_ROLE] });
  onEnd(() => endpoint.close());
  const JWKS = JSON.stringify(kept.jwks);
  const runtime = await startRuntime({
    port,
    dataDir: join(data, "cf"),
    secrets: {
      ISSUERS: kept.issuers.join(","),
      DATABASE_URL: endpoint.url(API_ROLE),
      JWKS,
      PUBLIC_JWKS: JSON.stringify({ keys: keysOf(JWKS).public }),
      ROOT_SECRETS: kept.root_secrets.join(","),
    },
    models: modelsOf(process.env as Models),
    telemetry: telemetryOf(process.env as Telemetry),
    computers: computersOf(process.env as Computers),
    sso: { SAML_KEYS: JSON.stringify(kept.saml_keys) },
    computersDir: join(data, "computers"),
    mailDir: join(data, "mail"),
    limited: true,
    ...(process.env.AGENTRY_ALLOW_LOOPBACK === "1" && { allowLoopback: hostOf(process.env.DATABASE_URL) }),
    ...(process.argv.includes("--watch") && {
      onReload: (ms: number) => {
        watchdog.look();
        console.log(`Reloaded in ${Math.round(ms)} ms`);
      },
    }),
  });
  onEnd(() => runtime.close());
  const watchdog = watchWorkerd();
  onEnd(watchdog.stop);
  handleSignals();
  performance.mark("Workers ready");
}

handleSignals();
await start().catch(fail);
