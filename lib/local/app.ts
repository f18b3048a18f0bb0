/** The operator's command for apps: `npm run app -- create --name …`, `list`, `rotate-key --app …`. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { isId } from "../ids.ts";
import { createApp, listApps, rotateKey } from "./apps.ts";
import { command, DATA_DIR, openDataDir, openEmbedded, openNamed, Refusal } from "./command.ts";
import type { Database } from "./neon.ts";
import { migrate } from "./schema.ts";

const USAGE = `Usage:
  npm run app -- create --name <name>        makes an app; prints its keys, which are shown once
  npm run app -- list                        lists the apps
  npm run app -- rotate-key --app <app id>   makes a new secret key and revokes the others
                            --keep-others    … leaves the others alive, to be revoked over the API later
With OWNER_DATABASE_URL=postgres://… of the database's owner; without it, the embedded database of \`npm start\`.`;

function readArgs() {
  try {
    const { positionals, values } = parseArgs({
      allowPositionals: true,
      options: {
        name: { type: "string" },
        app: { type: "string" },
        "keep-others": { type: "boolean", default: false },
      },
    });
    return { verb: positionals[0], ...values };
  } catch (error) {
    throw new Refusal(`${(error as Error).message}\n${USAGE}`);
  }
}

/** What is asked for, as far as it can be told without the database. */
function readWork(): (database: Database) => Promise<unknown> {
  const { verb, name, app, "keep-others": keepOthers } = readArgs();
  if (verb === "create") {
    if (!name) throw new Refusal(`create needs --name.\n${USAGE}`);
    return (database) => createApp(database, name);
  }
  if (verb === "list") return listApps;
  if (verb !== "rotate-key") throw new Refusal(USAGE);
  if (!app || !isId("app", app)) throw new Refusal(`rotate-key needs --app with an app's id.\n${USAGE}`);
  return async (database) => {
    const secret_key = await rotateKey(database, app, keepOthers);
    if (!secret_key) throw new Refusal(`There is no app ${app}.`);
    return { app_id: app, secret_key };
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
