import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { newId } from "../../../lib/ids.ts";
import { serveComputers } from "../../../lib/local/computers.ts";

const dir = mkdtempSync(join(tmpdir(), "agentry-computers-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const hasBubblewrap = spawnSync("bwrap", ["--unshare-all", "--ro-bind", "/", "/", "true"]).status === 0;

it.each(["nothing else", "all else"])(
  "says that bubblewrap isn't there where it isn't, and %s is, and leaves nothing of what it couldn't make",
  async (what) => {
    const path = mkdtempSync(join(tmpdir(), "agentry-path-"));
    if (what === "all else") symlinkSync("/usr/bin/choom", join(path, "choom"));
    const { answer } = serveComputers(dir, path);
    const asked = JSON.stringify({ id: newId("agent_computer") });
    expect(await answer("create", asked)).toEqual({
      status: 422,
      body: "bubblewrap is not installed on this machine.",
    });
    expect(await answer("exists", asked)).toEqual({ status: 200, body: "false" });
    expect((await answer("destroy", asked)).status).toBe(200);
    expect(readdirSync(dir)).toEqual([]);
  },
);

it("takes no id for a path", async () => {
  const { answer } = serveComputers(join(dir, "inner"));
  for (const id of ["..", "../x", "cmp_../../../../../../../x", ""]) {
    expect((await answer("create", JSON.stringify({ id }))).status).toBe(422);
    expect((await answer("destroy", JSON.stringify({ id }))).status).toBe(422);
  }
  expect(readdirSync(dir)).toEqual([]);
});

it.runIf(hasBubblewrap)("leaves nothing running behind when the server is killed", { timeout: 60_000 }, async () => {
  const seconds = `${100_000 + Math.floor(Math.random() * 800_000)}`;
  const id = newId("agent_computer");
  const module = join(import.meta.dirname, "../../../lib/local/computers.ts");
  const server = spawn(process.execPath, [
    "--input-type=module",
    "-e",
    `const { serveComputers } = await import(${JSON.stringify(module)});
     const { answer } = serveComputers(${JSON.stringify(dir)});
     await answer("create", '{"id": "${id}"}');
     await answer("exec", JSON.stringify({ id: "${id}", run: "one", command: "setsid sleep ${seconds} & sleep ${seconds}", dir: null, timeout_seconds: 600 }));`,
  ]);
  const sleeping = () =>
    readdirSync("/proc").filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8") === `sleep\0${seconds}\0`;
      } catch {
        return false;
      }
    }).length;
  await expect.poll(sleeping, { timeout: 30_000 }).toBe(2);
  server.kill("SIGKILL");
  await expect.poll(sleeping, { timeout: 30_000 }).toBe(0);
  expect((await serveComputers(dir).answer("destroy", JSON.stringify({ id }))).status).toBe(200);
});
