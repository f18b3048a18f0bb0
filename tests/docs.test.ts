/** README and docs/: every example is run as it stands or says why not, and every link and name leads somewhere. */
import { execFile } from "node:child_process";
import { existsSync, globSync, readdirSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join, relative, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { COMPUTER_VARIABLES, MAIL_VARIABLES, MODEL_VARIABLES, SSO_VARIABLES } from "../lib/env.ts";
import { readGroups } from "../lib/local/groups.ts";
import { openPostgres } from "../lib/local/postgres.ts";
import { anApp, system } from "./harness/index.ts";
import { newRoot, newSigningKey, ownSystem } from "./harness/own.ts";

const execute = promisify(execFile);
const root = resolve(import.meta.dirname, "..");
const README = "README.md";

/** A fenced block, and the comment right above it: why it isn't run here, and what is tried instead. */
type Block = { language: string; code: string; line: number; mark: string | null; follows: Block | null };
type Page = { name: string; lines: string[]; prose: string; blocks: Block[]; odd: string[] };

function readPage(name: string): Page {
  const lines = readFileSync(join(root, name), "utf8").trimEnd().split("\n");
  const prose: string[] = [];
  const odd: string[] = [];
  const blocks: Block[] = [];
  let last: Block | null = null;
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i]!;
    const language = line.match(/^```(\w*)$/)?.[1];
    if (language === undefined) {
      // Only a fence says its language, so only fences hold code.
      if (/^( {4}|\t)/.test(line) || /^\s*(```|~~~)/.test(line)) odd.push(`${name}:${i + 1}: ${line}`);
      prose.push(line);
      if (line !== "") last = null;
      continue;
    }
    const end = lines.indexOf("```", i + 1);
    const mark = lines[i - 1]?.match(/^<!-- (.*) -->$/)?.[1] ?? null;
    const code = lines.slice(i + 1, end).join("\n");
    last = { language, code, line: i + 1, mark, follows: last };
    blocks.push(last);
    i = end;
  }
  return { name, lines, prose: prose.join("\n"), blocks, odd };
}

const pages = [README, ...globSync("docs/**/*.md", { cwd: root })].map(readPage);
const pageOf = (name: string) => pages.find((page) => page.name === name)!;

const NOT_RUN = /^not run: (?<why>.+); tried: (?<tried>.*--(?:help|dry-run)\b.*)$/;
/** These are run for real, where DATABASE_URL names a server on which a database can be made. */
const WITH_POSTGRES = "run with a PostgreSQL server";
const named = (block: Block, page: Page) => `${page.name}:${block.line}`;
/** A TypeScript block names its file in its first line, so that a shell block can run it. */
const fileOf = ({ language, code }: Block) => (language === "ts" ? code.match(/^\/\/ ([\w-]+\.ts)\n/)?.[1] : undefined);
const shellOf = ({ blocks }: Page) => blocks.filter(({ language, mark }) => language === "sh" && mark === null);

/** Whether the block is run as it stands, is what such a one prints, or says why neither. */
function isAccountedFor(block: Block, page: Page): boolean {
  if (block.mark !== null) return block.mark === WITH_POSTGRES || NOT_RUN.test(block.mark);
  if (block.language === "text") return block.follows?.language === "sh" && block.follows.mark === null;
  const file = fileOf(block);
  return block.language === "sh" || (file !== undefined && shellOf(page).some(({ code }) => code.includes(file)));
}

const dirs: string[] = [];
afterAll(() => Promise.all(dirs.map((dir) => rm(dir, { recursive: true, force: true }))));
async function newDir(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), "agentry-docs-"));
  dirs.push(dir);
  return dir;
}

let own: Awaited<ReturnType<typeof ownSystem>>;
let base: string;
let mailDir: string;
beforeAll(async () => {
  own = await ownSystem();
  mailDir = await newDir();
  const options = { allowLoopback: "127.0.0.1", computersDir: await newDir(), mailDir };
  base = await own.start([await newSigningKey("one")], [newRoot()], options);
});
afterAll(() => own.close());

/** A directory that looks like the checkout after `AGENTRY_ALLOW_LOOPBACK=1 npm start`, with an app of its own. */
async function aCheckout(): Promise<string> {
  const dir = await newDir();
  for (const name of readdirSync(root)) {
    if (![".agentry", ".git", ".wrangler"].includes(name)) await symlink(join(root, name), join(dir, name));
  }
  await mkdir(join(dir, ".agentry"));
  await symlink(mailDir, join(dir, ".agentry/mail"));
  const { app: app_id, secret_key, publishable_key } = await anApp({ base, newApp: own.newApp });
  const credentials = { base_url: base, app_id, secret_key, publishable_key };
  await writeFile(join(dir, ".agentry/credentials.json"), JSON.stringify(credentials, null, 2));
  return dir;
}

// Without what names a database: examples meet the machine as a newcomer's shell does.
const { DATABASE_URL, OWNER_DATABASE_URL: _, ...machine } = process.env;
const environment = { ...machine, WRANGLER_SEND_METRICS: "false", WRANGLER_HIDE_BANNER: "true", NO_COLOR: "1" };

/** What each block prints, pasted one after the other into one shell that ends at the first failure. */
async function paste(blocks: Block[], cwd: string, env: NodeJS.ProcessEnv = {}): Promise<string[]> {
  const END = "-- the end of a block --";
  const script = blocks.map(({ code }) => `${code}\necho '${END}'`).join("\n");
  const { stdout } = await execute("bash", ["-euo", "pipefail", "-c", script], {
    cwd,
    env: { ...environment, ...env },
  });
  return stdout.split(`${END}\n`).slice(0, -1);
}

/** The page's own blocks, in the shell of the README's first session where the page says so. */
async function pasted(page: Page): Promise<Map<Block, string>> {
  const dir = await aCheckout();
  const begun = page.prose.includes("../README.md#a-first-session") ? shellOf(pageOf(README)).slice(0, 2) : [];
  for (const block of page.blocks) {
    const file = fileOf(block);
    if (file) await writeFile(join(dir, file), block.code);
  }
  const own = shellOf(page);
  const printed = await paste([...begun, ...own], dir);
  return new Map(own.map((block, i) => [block, printed[begun.length + i]!]));
}

/** What a page shows of an answer, as a pattern: `…` stands for whatever comes there. */
const pattern = (shown: string) =>
  new RegExp(`^${shown.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replaceAll("…", ".*")}$`);

describe("a page", () => {
  it("is short: 200 lines, the README 110", () => {
    const long = pages.filter(({ name, lines }) => lines.length > (name === README ? 110 : 200));
    expect(long.map(({ name, lines }) => `${name}: ${lines.length}`)).toEqual([]);
  });

  it("begins with what works when pasted", () => {
    const late = pages.filter(({ name, lines, blocks: [first] }) => {
      const heading = lines.findIndex((line, i) => i > 0 && line.startsWith("#"));
      return name !== README && (first?.language !== "sh" || first.mark !== null || heading + 1 < first.line);
    });
    expect(late.map(({ name }) => name)).toEqual([]);
  });

  it("holds code in fences alone, each of which is run or marked", () => {
    expect(pages.flatMap(({ odd }) => odd)).toEqual([]);
    const left = pages.flatMap((page) =>
      page.blocks.filter((block) => !isAccountedFor(block, page)).map((block) => named(block, page)),
    );
    expect(left).toEqual([]);
    // An interactive zsh takes a comment for a command.
    const commented = pages.flatMap((page) =>
      page.blocks
        .filter(({ language, code }) => language === "sh" && /(^|\s)#\s/m.test(code))
        .map((block) => named(block, page)),
    );
    expect(commented).toEqual([]);
  });
});

describe("pasted, every example works and prints what is shown:", { timeout: 120_000 }, () => {
  it.each(pages)("$name", async (page) => {
    const printed = await pasted(page);
    for (const block of page.blocks) {
      if (block.language !== "text" || block.mark !== null) continue;
      expect(printed.get(block.follows!)!.trimEnd(), named(block, page)).toMatch(pattern(block.code));
    }
    if (page.name !== README) return;
    const all = [...printed.values()].join("");
    expect(all).toContain('"lookup_key":"support"');
    expect(all).toContain('"kind":"agent.created"');
    const [sdk, tools, frames] = [...printed.values()].slice(2) as [string, string, string];
    expect(sdk).toMatch(/^agi_\w+ 2 2\n$/);
    expect(tools).toMatch(/"name":"health"[\s\S]*"name":"price"/);
    const told = [...frames.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data!));
    const of = (type: string) => told.filter((frame) => frame.type === type);
    // Both runs of the stream tell the two calls.
    expect(of("tool.completed").map(({ name, result }) => [name, result.content ?? result.resolution])).toEqual(
      expect.arrayContaining([
        ["health", expect.anything()],
        ["price", expect.anything()],
      ]),
    );
    expect(of("tool.failed")).toEqual([]);
    expect(frames).toContain("price: 42");
    expect(of("session.status").map(({ status }) => status)).toEqual(expect.arrayContaining(["waiting", "completed"]));
    expect(frames).toMatch(/\ncancelled\n$/);
  });

  it("the README's a second time shows the refusal, not a stack", async () => {
    const dir = await aCheckout();
    const session = shellOf(pageOf(README)).slice(0, 2);
    await paste(session, dir);
    const again = session.map(({ code }) => code).join("\n");
    const { stderr } = await execute("bash", ["-c", again], { cwd: dir, env: environment }).catch((error) => error);
    expect(stderr).toContain("This slug is already taken.");
    expect(stderr).toMatch(/status: 409/);
    expect(stderr).not.toMatch(/^ {4}at /m);
  });
});

describe("what is not run here", { timeout: 60_000 }, () => {
  const marked = pages.flatMap((page) =>
    page.blocks.flatMap((block) => {
      const { why, tried } = block.mark?.match(NOT_RUN)?.groups ?? {};
      return why && tried ? [{ at: named(block, page), why, tried, code: block.code }] : [];
    }),
  );

  it("is ten examples at most", () => {
    expect(marked.length).toBeLessThanOrEqual(10);
  });

  it.each(marked)("$at is tried: $tried", async ({ tried }) => {
    await execute("bash", ["-euo", "pipefail", "-c", tried], { cwd: root, env: environment });
  });

  it("are the README's two commands, which are run elsewhere as they stand", async () => {
    const { code } = pageOf(README).blocks[0]!;
    expect(code).toBe("npm ci && npm start\nnpm ci && npm test");
    const ci = (await readFile(join(root, ".ci/run"), "utf8")).split("\n");
    // Some files of tests on the embedded database, the others on a server.
    expect(ci).toEqual(expect.arrayContaining(["npm ci", "npm test -- $embedded"]));
    expect(await readFile(join(root, "tests/local/start.test.ts"), "utf8")).toContain('["npm", "start"]');
  });
});

describe("deploying", { timeout: 60_000 }, () => {
  const page = pageOf("docs/deploy.md");
  const withPostgres = pages.flatMap(({ blocks }) => blocks.filter(({ mark }) => mark === WITH_POSTGRES));

  /** A command that notes what it is called with and what comes in, before it does anything. */
  async function noting(name: string, then: string) {
    const dir = await newDir();
    const text = `#!/bin/sh\nprintf '%s\\n' "$*" >> '${dir}/args'\ntee -a '${dir}/input' | ${then}\n`;
    await writeFile(join(dir, name), text, { mode: 0o755 });
    const linesOf = async (name: string) => (await readFile(join(dir, name), "utf8")).trimEnd().split("\n");
    return {
      path: `${dir}${delimiter}${process.env.PATH}`,
      args: () => linesOf("args"),
      input: () => linesOf("input"),
    };
  }

  it("gives private keys to the Workers that sign and to no other, and shows no secret in a process list", async () => {
    const block = page.blocks.find(({ code }) => code.includes("wrangler secret bulk"))!;
    const wrangler = await noting("npx", "cat > /dev/null");
    const hush = "a-password-to-hush";
    await paste([block], await aCheckout(), {
      ...{
        PATH: wrangler.path,
        PASSWORD: hush,
        PGHOST: "db.example",
        PGDATABASE: "neondb",
        ROOT_SECRETS: "r".repeat(44),
      },
    });
    const called = await wrangler.args();
    const groups = called.map((args) => args.match(/^wrangler secret bulk --env (\w+)$/)![1]!);
    const given = (await wrangler.input()).map((line) => JSON.parse(line) as Record<string, string>);
    const environments = (await readGroups()).filter(
      ([group, { secrets: wants }]) => group !== "all" && wants.required.length > 0,
    );
    expect(groups).toEqual(environments.map(([group]) => group));

    const isPrivate = (jwks: string) => JSON.parse(jwks).keys.every((key: { d?: string }) => key.d !== undefined);
    for (const [i, [group, { secrets: wants }]] of environments.entries()) {
      const { DATABASE_URL, ROOT_SECRETS, PUBLIC_JWKS, JWKS, ...others } = given[i]!;
      expect([group, ...Object.keys(given[i]!).sort()]).toEqual([group, ...[...wants.required].sort()]);
      expect(DATABASE_URL).toBe(`postgresql://agentry_api:${hush}@db.example/neondb?sslmode=require`);
      expect(ROOT_SECRETS!.length).toBeGreaterThanOrEqual(32);
      expect([isPrivate(PUBLIC_JWKS!), JWKS === undefined || isPrivate(JWKS), others]).toEqual([false, true, {}]);
    }
    expect(called.join()).not.toContain(hush);
  });

  it("prints a signing key of which only the public half lacks its secret", async () => {
    const { stdout } = await execute("npm", ["run", "--silent", "keys"], { cwd: root });
    const { private: signing, public: open } = JSON.parse(stdout);
    expect(signing.keys[0]).toMatchObject({ kty: "EC", crv: "P-256", d: expect.any(String) });
    const { d: _, ...rest } = signing.keys[0];
    expect(open.keys).toEqual([rest]);
  });

  it.runIf(process.env.DATABASE_URL)(
    "makes a database that is ready to serve, with its commands as they stand",
    async () => {
      const name = `agentry_docs_${Math.random().toString(36).slice(2)}`;
      const server = await openPostgres(DATABASE_URL!);
      await server.exec(`create database ${name}`);
      try {
        const { hostname, port, username, password } = new URL(DATABASE_URL!);
        // The role belongs to the whole server, which may be somebody's: what is done to it is taken back at once.
        const { stdout: real } = await execute("bash", ["-c", "command -v psql"]);
        const psql = await noting(
          "psql",
          `{ echo 'begin;'; cat; echo '; rollback;'; } | ${real.trim()} -v ON_ERROR_STOP=1 "$@"`,
        );
        const [migrated, , made, resealed, developers] = await paste(withPostgres, await aCheckout(), {
          ...{ PATH: psql.path, PGHOST: hostname, PGPORT: port || "5432", PGDATABASE: name, PGUSER: username },
          ...{ PGPASSWORD: password, PGSSLMODE: "disable" },
        });
        expect(migrated).toMatch(/^Applied/);
        expect(await psql.args()).toEqual(["--quiet"]);
        expect(await psql.input()).toEqual([expect.stringMatching(/^alter role agentry_api password '\w{48}'$/)]);
        const app = JSON.parse(made!.slice(0, made!.indexOf("}") + 1));
        expect(resealed).toBe("Sealed anew: 0.\nEvery secret opens with the newest root secret alone.\n");
        expect(developers).toMatch(
          /"login": "\/developer\/login\/dap_\w+"\n}\ndva_\w+\t.*\teve@agency.example\n{\n.*"removed": "eve@/s,
        );
        expect(made).toMatch(new RegExp(`\n${app.app_id}\t.*\tMy app\n$`));

        const url = new URL(DATABASE_URL!);
        url.pathname = name;
        const operate = (...args: string[]) =>
          execute("npm", ["run", "--silent", ...args], {
            cwd: root,
            env: { ...environment, OWNER_DATABASE_URL: url.href },
          });
        expect((await operate("migrate")).stdout).toContain("Nothing to do");
        const rotated = JSON.parse((await operate("app", "--", "rotate-key", "--app", app.app_id)).stdout);
        expect(rotated.secret_key).not.toBe(app.secret_key);
        await expect(operate("app", "--", "rotate-key", "--app", "dap_0000000000000000000000")).rejects.toThrow();
      } finally {
        await server.exec(`drop database ${name} with (force)`);
        await server.close();
      }
    },
  );

  const commands = [...new Set(withPostgres.flatMap(({ code }) => code.match(/^npm run .*$/gm) ?? []))];
  it.each(commands)("%s: says what it wants where no database is named", async (command) => {
    const env = { ...environment, AGENTRY_DATA: join(tmpdir(), "agentry-absent") };
    const refused = execute("bash", ["-c", command], { cwd: root, env });
    await expect(refused).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^OWNER_DATABASE_URL is not set/),
    });
  });
});

describe("what a page names is there:", () => {
  /** The anchors that a page's headings get, as a forge makes them. */
  const headings = ({ prose }: Page) =>
    [...prose.matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
      heading!
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
    );
  const quoted = ({ prose }: Page) => [...prose.matchAll(/`([^`\n]+)`/g)].map(([, text]) => text!);
  /** What a page names and is not there, with the page. */
  const missing = (find: (page: Page) => string[]) =>
    pages.flatMap((page) => find(page).map((name) => `${page.name}: ${name}`));

  it("links, and the headings they lead to", () => {
    const dead = ({ name, prose }: Page) =>
      [...prose.matchAll(/\]\(([^)\s]+)\)/g)]
        .map(([, target]) => target!)
        .filter((target) => {
          if (/^[a-z]+:/.test(target)) return false;
          const [path = "", anchor] = target.split("#");
          const file = path === "" ? name : relative(root, resolve(root, dirname(name), path));
          if (!existsSync(join(root, file))) return true;
          return anchor !== undefined && !headings(readPage(file)).includes(anchor);
        });
    expect(missing(dead)).toEqual([]);
    expect(pages.flatMap(({ prose }) => prose.match(/\]\(/g) ?? []).length).toBeGreaterThan(10);
  });

  it("files and directories", () => {
    // Without the ones that a run makes, and those that belong to nobody's checkout.
    const top = readdirSync(root).filter((name) => ![".agentry", ".git", "node_modules"].includes(name));
    const isPath = (text: string) =>
      /^[\w.@<>{},*/-]+$/.test(text) &&
      (top.includes(text.split("/")[0]!) || /^[\w-]+\.(ts|sql|md|toml)$/.test(text)) &&
      !text.startsWith("<");
    const spelt = (text: string): string[] => {
      const [, before, choice, after] = text.match(/^(.*?)\{(.+?)\}(.*)$/) ?? [];
      return choice ? choice.split(",").flatMap((one) => spelt(`${before}${one}${after}`)) : [text];
    };
    const isThere = (path: string) => globSync(path.replace(/<\w+>/g, "*"), { cwd: root }).length > 0;
    const found = (page: Page) => quoted(page).filter(isPath);
    expect(missing((page) => found(page).filter((text) => !spelt(text).every(isThere)))).toEqual([]);
    expect(pages.flatMap(found).length).toBeGreaterThan(40);
  });

  it("tests, by the names that are quoted", () => {
    const dead = ({ prose }: Page) =>
      [...prose.matchAll(/`(tests\/[^`]+\.ts)` \("([^"]+)"\)/g)]
        .filter(([, file, title]) => !readFileSync(join(root, file!), "utf8").includes(title!))
        .map(([text]) => text);
    expect(missing(dead)).toEqual([]);
  });

  it("commands", async () => {
    const { scripts } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
    const dead = ({ lines }: Page) =>
      [...lines.join("\n").matchAll(/npm run (?:--silent )?([a-z]+)/g)]
        .map(([, name]) => name!)
        .filter((name) => !(name in scripts));
    expect(missing(dead)).toEqual([]);
  });

  it("addresses, which the service has", async () => {
    const { paths } = (await (await fetch(`${system.base}/openapi.json`)).json()) as { paths: object };
    const served = Object.keys(paths);
    const dead = (page: Page) =>
      quoted(page)
        .map((text) => text.replace(/^(GET|POST|PUT|PATCH|DELETE) /, ""))
        .filter((text) => text.startsWith("/"))
        .filter((path) =>
          path.endsWith("*") ? !served.some((one) => one.startsWith(path.slice(0, -1))) : !served.includes(path),
        );
    expect(missing(dead)).toEqual([]);
  });

  it("settings: docs/configuration.md has those that the code reads, and no other", () => {
    const told = pageOf("docs/configuration.md")
      .lines.filter((line) => line.startsWith("|"))
      .flatMap((line) => line.match(/`[A-Z][A-Z_]+`/g) ?? [])
      .map((text) => text.slice(1, -1));
    const reads = (files: string[], setting: RegExp) =>
      files.flatMap((file) => [...readFileSync(join(root, file), "utf8").matchAll(setting)].map(([, name]) => name!));
    const local = globSync(["lib/local/*.ts", "bench/*.ts", "tests/harness/*.ts"], { cwd: root });
    const workers = globSync(["functions/**/*.ts", "lib/**/*.ts"], { cwd: root }).filter(
      (file) => !/^lib\/(local|script)\//.test(file),
    );
    const used = [
      ...reads(local, /process\.env\.([A-Z_]+)/g),
      ...reads(workers, /(?<!\{ )\benv\.([A-Z_]+)\b/g),
      ...MODEL_VARIABLES,
      ...COMPUTER_VARIABLES,
      ...MAIL_VARIABLES,
      ...SSO_VARIABLES,
    ];
    // What the tests' first process tells the others.
    const between = new Set(["TEMPLATE"]);
    expect([...new Set(told)].sort()).toEqual([...new Set(used)].filter((name) => !between.has(name)).sort());
  });
});
