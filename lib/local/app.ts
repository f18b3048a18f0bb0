/** The operator's command for apps: `npm run app -- create --name …`, `list`, `rotate-key --app …`, `developer add --email …`. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import * as v from "valibot";
import { developerEmail } from "../developers/schema.ts";
import { isId } from "../ids.ts";
import { addDeveloper, appOf, createApp, listApps, listDevelopers, removeDeveloper, rotateKey } from "./apps.ts";
import { command, DATA_DIR, openDataDir, openEmbedded, openNamed, Refusal } from "./command.ts";
import type { Database } from "./neon.ts";
import { migrate } from "./schema.ts";

const USAGE = `Usage:
  npm run app -- create --name <name>        makes an app; prints its keys, which are shown once
  npm run app -- list                        lists the apps
  npm run app -- rotate-key --app <app id>   makes a new secret key and revokes the others
                            --keep-others    … leaves the others alive, to be revoked over the API later
  npm run app -- developer add --email <address>       lets somebody sign in as the app's developer
  npm run app -- developer list                        lists the app's developers
  npm run app -- developer remove --email <address>    takes one away, signed in or not
                            --app <app id>             … where there are several apps
With OWNER_DATABASE_URL=postgres://… of the database's owner; without it, the embedded database of \`npm start\`.`;

function readArgs() {
  try {
    const { positionals, values } = parseArgs({
      allowPositionals: true,
      options: {
        name: { type: "string" },
        app: { type: "string" },
        email: { type: "string" },
        "keep-others": { type: "boolean", default: false },
      },
    });
    return { verb: positionals.join(" "), ...values };
  } catch (error) {
    throw new Refusal(`${(error as Error).message}\n${USAGE}`);
  }
}

/** What is asked for, as far as it can be told without the database. */
function readWork(): (database: Database) => Promise<unknown> {
  const { verb, name, app, email, "keep-others": keepOthers } = readArgs();
  if (verb === "create") {
    if (!name) throw new Refusal(`create needs --name.\n${USAGE}`);
    return (database) => createApp(database, name);
  }
  if (verb === "list") return listApps;
  if (verb.startsWith("developer ")) return readDeveloperWork(verb, app, email);
  if (verb !== "rotate-key") throw new Refusal(USAGE);
  if (!app || !isId("app", app)) throw new Refusal(`rotate-key needs --app with an app's id.\n${USAGE}`);
  return async (database) => {
    const secret_key = await rotateKey(database, app, keepOthers);
    if (!secret_key) throw new Refusal(`There is no app ${app}.`);
    return { app_id: app, secret_key };
  };
}

/** The same of an app's developers: of the only app, where none is named. */
function readDeveloperWork(
  verb: string,
  app: string | undefined,
  email = "",
): (database: Database) => Promise<unknown> {
  const [, what] = verb.match(/^developer (add|list|remove)$/) ?? [];
  if (!what) throw new Refusal(USAGE);
  if (app !== undefined && !isId("app", app)) throw new Refusal(`--app needs an app's id.\n${USAGE}`);
  if (what !== "list" && !v.is(developerEmail, email))
    throw new Refusal(`${verb} needs --email with an address.\n${USAGE}`);
  return async (database) => {
    const of = await appOf(database, app);
    if (!of) throw new Refusal(app ? `There is no app ${app}.` : "There is not one app alone: say which by --app.");
    if (what === "list") return listDevelopers(database, of);
    const id = await (what === "add" ? addDeveloper : removeDeveloper)(database, of, email);
    if (!id) throw new Refusal(`No developer of ${of} has the address ${email}.`);
    return what === "add"
      ? { id, app_id: of, email, login: `/developer/login/${of}` }
      : { id, app_id: of, removed: email };
  };
}

async function openDatabase(): Promise<Database> {
  const url = process.env.OWNER_DATABASE_URL;
  if (url) return openNamed("OWNER_DATABASE_URL", url);
  if (!existsSync(join(DATA_DIR, "pg"))) {
    throw new Refusal(
      `OWNER_DATABASE_URL is not set, and there is no embedded database in ${DATA_DIR}: npm start makes one.\n${USAGE}`,
    );
  }
  try {
    openDataDir();
  } catch (error) {
    throw new Refusal(
      `${(error as Error).message} Or set OWNER_DATABASE_URL, for a database that isn't the embedded one.`,
    );
  }
  const database = await openEmbedded(DATA_DIR);
  await migrate(database);
  return database;
}

await command(async () => {
  const work = readWork();
  const done = await work(await openDatabase());
  if (!Array.isArray(done)) console.log(JSON.stringify(done, null, 2));
  else for (const { id, name, created_at } of done) console.log(`${id}\t${created_at}\t${name}`);
});
