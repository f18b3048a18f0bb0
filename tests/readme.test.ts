/** Every example of the README is run as it stands. */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { anApp, system } from "./harness/index.ts";

const run = promisify(execFile);
const root = resolve(import.meta.dirname, "..");
let dir: string;
let readme: string;
let app: Awaited<ReturnType<typeof anApp>>;

beforeAll(async () => {
  readme = await readFile(join(root, "README.md"), "utf8");
  app = await anApp();
  dir = await mkdtemp(join(tmpdir(), "agentry-readme-"));
  await mkdir(join(dir, ".agentry"));
  const credentials = {
    base_url: system.base,
    app_id: app.app,
    secret_key: app.secret_key,
    publishable_key: app.publishable_key,
  };
  await writeFile(join(dir, ".agentry/credentials.json"), JSON.stringify(credentials));
  await symlink(join(root, "node_modules"), join(dir, "node_modules"));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

const blocks = (language: string) =>
  [...readme.matchAll(new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, "gs"))].map(([, code]) => code!);

it("has a session with curl that works, and one with the SDK that goes on from it", async () => {
  const [shell] = blocks("sh");
  const [typescript] = blocks("ts");
  const { stdout } = await run("bash", ["-euo", "pipefail", "-c", `${shell}\necho; echo "TOKEN=$TOKEN"`], { cwd: dir });
  expect(stdout).toContain('"lookup_key":"support"');
  expect(stdout).toContain('"kind":"agent.created"');
  const token = stdout.match(/TOKEN=(\S+)/)![1]!;
  await writeFile(join(dir, "app.ts"), typescript!);
  const env = { ...process.env, BASE: system.base, PUBLISHABLE: app.publishable_key, TOKEN: token };
  const said = await run(process.execPath, ["app.ts"], { cwd: dir, env });
  expect(said.stdout).toMatch(/^agi_\w+ 2 2\n$/);
});

it("names commands that there are, and groups that are deployed", async () => {
  const { scripts } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const commands = [...readme.matchAll(/npm run (?:--silent )?([a-z]+)/g)].map(([, name]) => name!);
  expect(commands.filter((name) => !(name in scripts))).toEqual([]);
  const wrangler = await readFile(join(root, "wrangler.toml"), "utf8");
  const groups = [...wrangler.matchAll(/^\[env\.(\w+)\]$/gm)].map(([, group]) => group!);
  const deployed = readme.match(/for g in ([\w ]+); do npx wrangler deploy/)![1]!.split(" ");
  expect([...deployed, "all"]).toEqual(groups);
  const ci = await readFile(join(root, ".ci/run"), "utf8");
  expect(ci.match(/for group in ([\w ]+); do/)![1]!.split(" ")).toEqual(groups);
});

it("prints a signing key of which only the public half lacks its secret", async () => {
  const { stdout } = await run(process.execPath, ["lib/local/keys.ts"], { cwd: root });
  const { private: signing, public: open } = JSON.parse(stdout);
  expect(signing.keys[0]).toMatchObject({ kty: "EC", crv: "P-256", d: expect.any(String) });
  const { d: _, ...rest } = signing.keys[0];
  expect(open.keys).toEqual([rest]);
});

it.runIf(process.env.DATABASE_URL)("keeps a deployed database with its commands", async () => {
  const name = `agentry_readme_${Math.random().toString(36).slice(2)}`;
  const { openPostgres } = await import("../lib/local/postgres.ts");
  const server = await openPostgres(process.env.DATABASE_URL!);
  await server.exec(`create database ${name}`);
  try {
    const url = new URL(process.env.DATABASE_URL!);
    url.pathname = name;
    const operate = async (...args: string[]) => {
      const { stdout } = await run(process.execPath, args, {
        cwd: root,
        env: { ...process.env, OWNER_DATABASE_URL: url.href },
      });
      return stdout;
    };
    expect(await operate("lib/local/migrate.ts")).toContain("Applied version 1.");
    expect(await operate("lib/local/migrate.ts")).toContain("Nothing to do");
    const made = JSON.parse(await operate("lib/local/app.ts", "create", "--name", "My app"));
    expect(await operate("lib/local/app.ts", "list")).toMatch(new RegExp(`^${made.app_id}\t.*\tMy app\n$`));
    const rotated = JSON.parse(await operate("lib/local/app.ts", "rotate-key", "--app", made.app_id));
    expect(rotated.secret_key).not.toBe(made.secret_key);
    await expect(operate("lib/local/app.ts", "rotate-key", "--app", "dap_0000000000000000000000")).rejects.toThrow();
  } finally {
    await server.exec(`drop database ${name} with (force)`);
    await server.close();
  }
});
