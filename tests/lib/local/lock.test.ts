import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { lockDataDir } from "../../../lib/local/lock.ts";

const module = new URL("../../../lib/local/lock.ts", import.meta.url).href;

/** Locks the directory in another process, which then stays until it is told to go, or killed. */
const holder = `
  const { lockDataDir } = await import(${JSON.stringify(module)});
  if (process.env.AT) while (Date.now() < Number(process.env.AT));
  try {
    const release = lockDataDir(process.env.DIR);
    process.stdin.on("data", () => { release(); process.exit(); });
    console.log("locked");
  } catch (error) {
    console.log(error.message);
    process.exit();
  }
`;

describe("the lock on a data directory", () => {
  let dir: string;
  let children: ChildProcess[] = [];

  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), "agentry-lock-"));
  });

  afterEach(async () => {
    await Promise.all(children.map(kill));
    children = [];
    rmSync(dir, { recursive: true });
  });

  const exited = (child: ChildProcess) =>
    child.exitCode !== null || child.signalCode !== null
      ? Promise.resolve()
      : new Promise<void>((resolve) => child.once("exit", () => resolve()));

  const kill = (child: ChildProcess) => {
    child.kill("SIGKILL");
    return exited(child);
  };

  /** The child, and what it said: "locked", or why not. */
  const spawnHolder = (at?: number) => {
    const args = ["--experimental-strip-types", "--no-warnings", "--input-type=module", "-e", holder];
    const child = spawn(process.execPath, args, {
      env: { ...process.env, DIR: dir, ...(at !== undefined && { AT: String(at) }) },
      stdio: ["pipe", "pipe", "inherit"],
    });
    children.push(child);
    const said = new Promise<string>((resolve) =>
      child.stdout.once("data", (chunk: Buffer) => resolve(chunk.toString().trim())),
    );
    return { child, said };
  };

  const readLock = () => JSON.parse(readFileSync(join(dir, "lock"), "utf8"));

  it("is a file with the process in it, gone once released", () => {
    const release = lockDataDir(dir);
    expect(readLock()).toMatchObject({ pid: process.pid });
    expect(readdirSync(dir)).toEqual(["lock"]);
    release();
    expect(readdirSync(dir)).toEqual([]);
    lockDataDir(dir)();
  });

  it("makes the directory if there is none", () => {
    dir = join(dir, "a", "b");
    lockDataDir(dir)();
    expect(readdirSync(dir)).toEqual([]);
  });

  it("refuses the same process twice", () => {
    const release = lockDataDir(dir);
    expect(() => lockDataDir(dir)).toThrow(`The data directory ${dir} is in use by this process (${process.pid}).`);
    release();
  });

  it("refuses while another process lives, and says which and what to do", async () => {
    const { child, said } = spawnHolder();
    expect(await said).toBe("locked");
    expect(() => lockDataDir(dir)).toThrow(
      `The data directory ${dir} is in use by the process ${child.pid}. Stop that one first, or choose another directory.`,
    );
    child.stdin?.write("go");
    await exited(child);
    lockDataDir(dir)();
  });

  it("takes over what a killed process left behind", async () => {
    const { child, said } = spawnHolder();
    expect(await said).toBe("locked");
    await kill(child);
    expect(readLock()).toMatchObject({ pid: child.pid });
    const release = lockDataDir(dir);
    expect(readLock()).toMatchObject({ pid: process.pid });
    expect(readdirSync(dir)).toEqual(["lock"]);
    release();
  });

  it.runIf(process.platform === "linux")("takes over from a process whose number another one got", () => {
    lockDataDir(dir);
    writeFileSync(join(dir, "lock"), JSON.stringify({ ...readLock(), started: "1" }));
    const release = lockDataDir(dir);
    release();
    expect(readdirSync(dir)).toEqual([]);
  });

  it.each(["", "{}", "null", '{"pid":0}'])("takes over what a crash of the machine left of a lock: %j", (content) => {
    writeFileSync(join(dir, "lock"), content);
    lockDataDir(dir)();
    expect(readdirSync(dir)).toEqual([]);
  });

  it("takes over even where a process died taking over", async () => {
    const { child, said } = spawnHolder();
    expect(await said).toBe("locked");
    await kill(child);
    const stale = readLock();
    writeFileSync(
      join(dir, `lock.${stale.id}`),
      JSON.stringify({ ...stale, id: "00000000-0000-4000-8000-000000000000" }),
    );
    lockDataDir(dir)();
    expect(readdirSync(dir)).toEqual([]);
  });

  it("does not release the lock of another", () => {
    const release = lockDataDir(dir);
    const theirs = { ...readLock(), id: "00000000-0000-4000-8000-000000000000" };
    writeFileSync(join(dir, "lock"), JSON.stringify(theirs));
    release();
    expect(readLock()).toEqual(theirs);
  });

  it("lets only one win of many that find it stale", async () => {
    const first = spawnHolder();
    expect(await first.said).toBe("locked");
    await kill(first.child);
    const at = Date.now() + 1_500;
    const rivals = Array.from({ length: 8 }, () => spawnHolder(at));
    const said = await Promise.all(rivals.map((rival) => rival.said));
    expect(said.filter((word) => word === "locked")).toHaveLength(1);
    expect(said.filter((word) => word.includes("is in use by the process"))).toHaveLength(7);
    expect(readdirSync(dir)).toEqual(["lock"]);
  });
});
