/** `npm run deploy`: every group's Worker to Cloudflare, or those that are named; with --dry-run they are only built. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { ROOT, readGroups } from "./groups.ts";

const USAGE = `Usage:
  npm run deploy                         deploys each group of wrangler.toml as a Worker of its own
  npm run deploy -- <group> <group>      deploys these
  npm run deploy -- --env all            deploys everything as one Worker
                    --dry-run            … builds the Workers and deploys nothing`;

function stop(message: string): never {
  console.error(message);
  process.exit(1);
}

function readArgs() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: { env: { type: "string", multiple: true, default: [] }, "dry-run": { type: "boolean", default: false } },
    });
  } catch (error) {
    return stop(`${(error as Error).message}\n${USAGE}`);
  }
}

const { positionals, values } = readArgs();
const dry = values["dry-run"];
const groups = await readGroups();
const known = groups.map(([group]) => group);
const named = [...positionals, ...values.env];
const unknown = named.filter((group) => !known.includes(group));
if (unknown.length) stop(`wrangler.toml has no [env.${unknown[0]}]. Its groups are ${known.join(", ")}.\n${USAGE}`);

const wanted = groups.filter(([group]) => (named.length ? named.includes(group) : group !== "all"));
const unset = wanted.filter(([, group]) => /api\.example\.com|"example\.com"/.test(JSON.stringify(group)));
if (unset.length && !dry) {
  const where = unset.map(([group]) => `[env.${group}]`).join(", ");
  stop(`wrangler.toml still says api.example.com in ${where}: put your own host in its place (routes and ISSUERS).`);
}

const done: string[] = [];
const list = () => done.join(", ") || "none";
for (const [group] of wanted) {
  console.log(`\n== ${group}`);
  const wrangler = join(ROOT, "node_modules/wrangler/bin/wrangler.js");
  const args = [wrangler, "deploy", "--env", group, ...(dry ? ["--dry-run"] : [])];
  const { status } = spawnSync(process.execPath, args, { cwd: ROOT, stdio: "inherit" });
  if (status !== 0)
    stop(`\n${group} could not be ${dry ? "built" : "deployed"}, and nothing after it was. Before it: ${list()}.`);
  done.push(group);
}
console.log(`\n${dry ? "Built, and not deployed" : "Deployed"}: ${list()}.`);
