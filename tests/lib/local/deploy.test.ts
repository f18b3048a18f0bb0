/** `npm run deploy`, as far as it goes without an account. */
import { execFile } from "node:child_process";
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { ROOT } from "../../../lib/local/groups.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });
let dir: string;
/** Cloudflare's API, with nobody there. */
const nowhere = {
  CLOUDFLARE_API_BASE_URL: "http://127.0.0.1:9/client/v4",
  CLOUDFLARE_API_TOKEN: "none",
  CLOUDFLARE_ACCOUNT_ID: "none",
  WRANGLER_SEND_METRICS: "false",
};

const deploy = (root: string, ...args: string[]) =>
  new Promise<{ code: number; said: string }>((done) => {
    const env = { ...process.env, ...nowhere };
    execFile(process.execPath, ["lib/local/deploy.ts", ...args], { cwd: root, env }, (error, stdout, stderr) =>
      done({ code: error ? Number(error.code) : 0, said: stdout + stderr }),
    );
  });

/** A copy for another host, in which the Worker of people can't be built. */
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "agentry-deploy-"));
  for (const part of ["functions", "lib", "wrangler.toml", "package.json", "tsconfig.json"])
    await cp(join(ROOT, part), join(dir, part), { recursive: true });
  await symlink(join(ROOT, "node_modules"), join(dir, "node_modules"));
  const config = await readFile(join(dir, "wrangler.toml"), "utf8");
  await writeFile(join(dir, "wrangler.toml"), config.replaceAll("example.com", "acme.test"));
  await writeFile(join(dir, "functions/people/index.ts"), "export default");
});
afterAll(() => rm(dir, { recursive: true, force: true }));

it("refuses to deploy to the host of the example, and says where it still stands", async () => {
  const { code, said } = await deploy(ROOT, "auth", "people");
  expect([code, said]).toEqual([1, expect.stringContaining("still says api.example.com in [env.auth], [env.people]:")]);
});

it("says which groups there are to one that asks for another", async () => {
  const { code, said } = await deploy(ROOT, "nobody");
  expect([code, said]).toEqual([
    1,
    expect.stringContaining("wrangler.toml has no [env.nobody]. Its groups are compute, objects, root, "),
  ]);
});

it("builds a Worker for the host of the example, and deploys nothing", async () => {
  const { code, said } = await deploy(ROOT, "--dry-run", "--env", "root");
  expect([code, said]).toEqual([0, expect.stringContaining("--dry-run: exiting now.")]);
  expect(said).toMatch(/== root\n.*Built, and not deployed: root\.\n$/s);
  // The document was made first, and what is sent is as small as tests/lib/local/runtime.test.ts says.
  expect(said).toContain("Running: node lib/local/document.ts");
  expect(Number(said.match(/gzip: ([\d.]+) KiB/)![1])).toBeLessThan(156);
});

it("stops at the first Worker that can't be built, and says what was done before it", async () => {
  const { code, said } = await deploy(dir, "--dry-run", "auth", "people", "agents");
  expect([code, said]).toEqual([1, expect.stringContaining("Total Upload")]);
  expect(said).toContain("people could not be built, and nothing after it was. Before it: auth.");
  expect(said).not.toContain("== agents");
});

it("stops at the first Worker that Cloudflare doesn't take", async () => {
  const { code, said } = await deploy(dir, "auth", "agents");
  expect([code, said]).toEqual([1, expect.stringContaining("auth could not be deployed, and nothing after it was.")]);
  expect(said).not.toContain("== agents");
});
