/** The operator's command for apps: `npm run app -- create --name …`, `list`, `rotate-key --app …`. */
import { parseArgs } from "node:util";
import { isId } from "../ids.ts";
import { createApp, listApps, rotateKey } from "./apps.ts";
import { openPostgres } from "./postgres.ts";

const USAGE = `Usage, with OWNER_DATABASE_URL=postgres://… of the database's owner:
  npm run app -- create --name <name>        makes an app; prints its keys, which are shown once
  npm run app -- list                        lists the apps
  npm run app -- rotate-key --app <app id>   makes a new secret key and revokes the others
                            --keep-others    … leaves the others alive, to be revoked over the API later`;

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { name: { type: "string" }, app: { type: "string" }, "keep-others": { type: "boolean", default: false } },
});
const [command] = positionals;
const url = process.env.OWNER_DATABASE_URL;

function stop(message: string): never {
  console.error(message);
  process.exit(1);
}

if (!url) stop(`OWNER_DATABASE_URL is not set.\n${USAGE}`);
if (!command || !["create", "list", "rotate-key"].includes(command)) stop(USAGE);
const database = await openPostgres(url);
try {
  if (command === "create") {
    if (!values.name) stop(`create needs --name.\n${USAGE}`);
    console.log(JSON.stringify(await createApp(database, values.name), null, 2));
  } else if (command === "list") {
    for (const { id, name, created_at } of await listApps(database)) console.log(`${id}\t${created_at}\t${name}`);
  } else {
    if (!values.app || !isId("app", values.app)) stop(`rotate-key needs --app with an app's id.\n${USAGE}`);
    const secret_key = await rotateKey(database, values.app, values["keep-others"]);
    if (!secret_key) stop(`There is no app ${values.app}.`);
    console.log(JSON.stringify({ app_id: values.app, secret_key }, null, 2));
  }
} finally {
  await database.close();
}
