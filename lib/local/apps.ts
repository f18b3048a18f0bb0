/** What an operator does with apps, as `agentry_owner`, whom no policy narrows: each statement names its app. */
import { newKey } from "../auth/keys.ts";
import { NONE } from "../db/schema.ts";
import { type Id, newId } from "../ids.ts";
import { asObjects, type Database, type Query } from "./neon.ts";

const OWNER = "agentry_owner";
const batch = { batch: true, isolation: "ReadCommitted" } as const;
const bytea = (bytes: Uint8Array) => `\\x${Buffer.from(bytes).toString("hex")}`;

async function keyFor(type: "publishable" | "secret", app: Id<"app">, sandbox: Id<"sandbox"> | typeof NONE) {
  const { full_key, hash, hint } = await newKey(type, app, sandbox);
  const insert: Query = {
    query:
      "insert into data.keys (id, app_id, sandbox_id, type, hash, hint, value) values ($1, $2, $3, $4, $5, $6, $7)",
    params: [newId("key"), app, sandbox, type, bytea(hash), hint, type === "publishable" ? full_key : null],
  };
  return { full_key, insert };
}

export type Credentials = { app_id: Id<"app">; secret_key: string; publishable_key: string };

/** Makes an app with a secret key, a publishable key and a sandbox called Test. The secret is shown here and never again. */
export async function createApp(database: Database, name: string): Promise<Credentials> {
  const app = newId("app");
  const sandbox = newId("sandbox");
  const secret = await keyFor("secret", app, NONE);
  const publishable = await keyFor("publishable", app, NONE);
  const test = await keyFor("publishable", app, sandbox);
  await database.run(
    OWNER,
    [
      { query: "insert into data.apps (id, name) values ($1, $2)", params: [app, name] },
      { query: "insert into data.tenants (app_id) values ($1)", params: [app] },
      secret.insert,
      publishable.insert,
      { query: "insert into data.tenants (app_id, sandbox_id) values ($1, $2)", params: [app, sandbox] },
      {
        query: "insert into data.sandboxes (app_id, sandbox_id, name, slug) values ($1, $2, 'Test', 'test')",
        params: [app, sandbox],
      },
      test.insert,
    ],
    batch,
  );
  return { app_id: app, secret_key: secret.full_key, publishable_key: publishable.full_key };
}

/** All apps of the deployment, newest first. */
export async function listApps(database: Database): Promise<{ id: string; name: string; created_at: string }[]> {
  const query = "select id, name, created_at::text from data.apps order by id desc";
  const [result] = await database.run(OWNER, [{ query, params: [] }], batch);
  return asObjects(result!);
}

/** Makes a new secret key of production and, unless they are kept, revokes the others. Null: there is no such app. */
export async function rotateKey(database: Database, app: Id<"app">, keepOthers: boolean): Promise<string | null> {
  if (!(await listApps(database)).some(({ id }) => id === app)) return null;
  const { full_key, insert } = await keyFor("secret", app, NONE);
  const revoke: Query = {
    query: `update data.keys set revoked_at = now()
      where app_id = $1 and sandbox_id = '-' and type = 'secret' and revoked_at is null`,
    params: [app],
  };
  await database.run(OWNER, [...(keepOthers ? [] : [revoke]), insert], batch);
  return full_key;
}

/** The app that a command means: the one it names or, without a name, the only one. Null: there is none such, or several. */
export async function appOf(database: Database, named: Id<"app"> | undefined): Promise<Id<"app"> | null> {
  const apps = await listApps(database);
  const [one, another] = named === undefined ? apps : apps.filter(({ id }) => id === named);
  return one && !another ? (one.id as Id<"app">) : null;
}

/** The developers of an app, newest first. */
export async function listDevelopers(database: Database, app: Id<"app">) {
  const query = "select id, email as name, created_at::text from data.developers where app_id = $1 order by id desc";
  const [result] = await database.run(OWNER, [{ query, params: [app] }], batch);
  return asObjects<{ id: string; name: string; created_at: string }>(result!);
}

/** Lets whoever has an address sign in as a developer of an app. Twice is once: answers the id. */
export async function addDeveloper(database: Database, app: Id<"app">, email: string): Promise<string> {
  const add: Query = {
    query: `insert into data.developers (app_id, id, email) values ($1, $2, $3)
      on conflict on constraint developers_email_key do nothing`,
    params: [app, newId("developer"), email],
  };
  const query = "select id from data.developers where app_id = $1 and email_key = lower($2)";
  const [, found] = await database.run(OWNER, [add, { query, params: [app, email] }], batch);
  return asObjects<{ id: string }>(found!)[0]!.id;
}

/** Takes a developer away, with every sign-in. Null: nobody of the app has the address. */
export async function removeDeveloper(database: Database, app: Id<"app">, email: string): Promise<string | null> {
  const query = "delete from data.developers where app_id = $1 and email_key = lower($2) returning id";
  const [result] = await database.run(OWNER, [{ query, params: [app, email] }], batch);
  return asObjects<{ id: string }>(result!)[0]?.id ?? null;
}
