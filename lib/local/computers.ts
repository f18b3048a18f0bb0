/**
 * Computers on this machine: a home each, and around each command a sandbox (bubblewrap) that ends with it. Workers
 * reach this by a binding, and nobody else does: there is no port.
 *
 * The command is in namespaces of its own, without a network, and without a way to make further ones; it sees `/usr`,
 * its home, and what is made for it. As root the sandbox is started by a user id of the computer's own, since limits on
 * processes don't bind root: an outer sandbox gives that id a way to the home, which lies below a directory of root's.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import type { Asked } from "../computers/local.ts";
import { ended, MAX_OUTPUT, type Ran, Refused, TOO_MUCH, tooLong } from "../computers/provider.ts";
import { isId } from "../ids.ts";

/**
 * Of a home, together. A command that passes it is ended; after that nothing can be written, and beyond twice as much nothing
 * changed.
 */
const MAX_BYTES = 1_000_000_000;
const MAX_FILES = 100_000;
/** Of one file. */
const MAX_FILE = 256 * 1024 * 1024;
/** Of a command: processes and threads, bytes resident together, and each one's address space. */
const MAX_PROCESSES = 64;
const MAX_MEMORY = 1_000_000_000;
const MAX_ADDRESSES = 4 * 1024 ** 3;
const MAX_OPEN = 256;
const LOOK_MS = 500;
/** To try a home, to empty one. */
const OWN_MS = 45_000;
/** What a home holds, over and over, as bytes and files. */
const MEASURE = `used() { du -s "$@" . 2>/dev/null | cut -f1; }
  while :; do echo $(used -B1) $(used --inodes); sleep 1; done`;

const SYSTEM = [
  ...["--ro-bind", "/usr", "/usr", "--dir", "/etc", "--ro-bind-try", "/etc/alternatives", "/etc/alternatives"],
  ...["bin", "lib", "lib64", "sbin"].flatMap((name) => ["--symlink", `usr/${name}`, `/${name}`]),
];
const PATH = "/usr/local/bin:/usr/bin:/bin";
/**
 * What no command may ask of the kernel, as classic BPF. Room for a file that it doesn't write, with which a disk is full in
 * an instant. Memory that a process can let go of and still fill, which nobody would count: shared without a file's name. Keys,
 * which no namespace keeps apart from the server's. The ring by which it could ask so past this. Calls of another architecture
 * end the caller.
 */
const FILTER = (() => {
  const isArm = process.arch === "arm64";
  const [arch, fallocate, mmap] = isArm ? [0xc00000b7, 47, 222] : [0xc000003e, 285, 9];
  // memfd_create, shmget, add_key, request_key and keyctl; memfd_secret and io_uring_setup.
  const hidden = [...(isArm ? [279, 194, 217, 218, 219] : [319, 29, 248, 249, 250]), 447, 425];
  const [LOAD, AND, IF_EQUAL, IF_ABOVE, ANSWER] = [0x20, 0x54, 0x15, 0x35, 0x06];
  const [NO_MEMORY, NO_SUCH_CALL, NOT_SUPPORTED] = [0x00050000 + 12, 0x00050000 + 38, 0x00050000 + 95];
  const [ALLOWED, KILLED] = [0x7fff0000, 0x80000000];
  const SHARED_ANONYMOUS = 0x21;
  const { length } = hidden;
  const program = [
    [LOAD, 0, 0, 4],
    [IF_EQUAL, 0, length + 10, arch],
    [LOAD, 0, 0, 0],
    [IF_ABOVE, length + 8, 0, 0x40000000],
    ...hidden.map((call, i) => [IF_EQUAL, length + 6 - i, 0, call] as const),
    [IF_EQUAL, 5, 0, fallocate],
    [IF_EQUAL, 0, 3, mmap],
    [LOAD, 0, 0, 40],
    [AND, 0, 0, SHARED_ANONYMOUS],
    [IF_EQUAL, 4, 0, SHARED_ANONYMOUS],
    [ANSWER, 0, 0, ALLOWED],
    [ANSWER, 0, 0, NOT_SUPPORTED],
    [ANSWER, 0, 0, NO_SUCH_CALL],
    [ANSWER, 0, 0, KILLED],
    [ANSWER, 0, 0, NO_MEMORY],
  ] as const;
  const bytes = Buffer.alloc(8 * program.length);
  for (const [i, [code, yes, no, k]] of program.entries()) {
    bytes.writeUInt16LE(code, 8 * i);
    bytes.writeUInt8(yes, 8 * i + 2);
    bytes.writeUInt8(no, 8 * i + 3);
    bytes.writeUInt32LE(k, 8 * i + 4);
  }
  return bytes;
})();
const isRoot = process.getuid?.() === 0;

type Child = ChildProcess & { stdout: Readable; stderr: Readable };
type Use = {
  argv: string[];
  /** Whether the home can be written to, and files have a size there. */
  home?: "write" | "empty" | "read";
  /** Past the permissions that the computer has given its files: to look after them. */
  keeper?: boolean;
};

/** The command line of a sandbox around `argv`. */
function sandbox(home: string, uid: number, { argv, home: use = "write", keeper = false }: Use): string[] {
  const bind = use === "read" ? "--ro-bind" : "--bind";
  const around = (from: string) => [
    ...["bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"],
    ...["--seccomp", "3"],
    ...["--clearenv", "--setenv", "HOME", "/home", "--setenv", "PATH", PATH, "--setenv", "LANG", "C.UTF-8"],
    ...["--uid", "1000", "--gid", "1000", ...(keeper ? ["--cap-add", "CAP_DAC_OVERRIDE"] : [])],
    ...[...SYSTEM, bind, from, "/home", "--dev", "/dev", "--proc", "/proc"],
    // It reads the same. What is mapped of /dev/zero is memory that nobody counts.
    ...["--dev-bind", "/dev/full", "/dev/zero"],
    // What isn't the home is in memory: as little of it as can be, and the rest can't be written to.
    ...["--size", "67108864", "--tmpfs", "/tmp", "--size", "16777216", "--tmpfs", "/dev/shm"],
    // Nor is any setting of a process changed, such as that it ends first where memory does.
    ...["--remount-ro", "/dev", "--remount-ro", "/proc", "--remount-ro", "/", "--chdir", "/home", "--"],
    // Inside, so that what else the user id runs doesn't count.
    ...["prlimit", `--nproc=${MAX_PROCESSES}`, `--fsize=${use === "empty" ? 0 : MAX_FILE}`, `--as=${MAX_ADDRESSES}`],
    ...[`--nofile=${MAX_OPEN}`, "--core=0", "--", "nice", "-n", "19", ...argv],
  ];
  const first = ["choom", "-n", "1000", "--"];
  if (!isRoot) return [...first, ...around(home)];
  return [
    ...[
      ...first,
      "bwrap",
      ...SYSTEM,
      bind,
      home,
      "/home",
      "--dir",
      "/tmp",
      "--dev-bind",
      "/dev",
      "/dev",
      "--bind",
      "/proc",
    ],
    ...["/proc", "--unshare-pid", "--die-with-parent", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--"],
    ...["setpriv", `--reuid=${uid}`, `--regid=${uid}`, "--clear-groups"],
    ...["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--", ...around("/home")],
  ];
}

/** Far from every id that people and services have. */
const uidOf = (id: string) => 1_000_000_000 + (createHash("sha256").update(id).digest().readUInt32BE() >>> 4);

/** Without this process's environment: what is in the sandbox sees that of the process which made it. */
function start([program, ...rest]: string[], path = PATH): Child {
  const child = spawn(program!, rest, { env: { PATH: path }, stdio: ["ignore", "pipe", "pipe", "pipe"] });
  const filter = child.stdio[3] as Writable;
  // Who has ended before it is read says so by its exit.
  filter.on("error", () => {});
  filter.end(FILTER);
  return child as Child;
}

/** Its exit code, when all that it said has come; null, if it was killed. Throws what bubblewrap itself complains of. */
function ending(child: Child): Promise<number | null> {
  let complaint = "";
  child.stderr.on("data", (data) => {
    complaint = (complaint + data).slice(0, 300);
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => (complaint ? reject(new Error(complaint.trim())) : resolve(code)));
  });
}

/** The bytes that a process and all that descends from it have in memory. */
function residentOf(pid: number): number {
  try {
    const pages = Number(readFileSync(`/proc/${pid}/statm`, "utf8").split(" ")[1]);
    const tasks = readdirSync(`/proc/${pid}/task`);
    const children = tasks.flatMap((task) => readFileSync(`/proc/${pid}/task/${task}/children`, "utf8").split(" "));
    return children.filter(Boolean).reduce((sum, child) => sum + residentOf(Number(child)), pages * 4096);
  } catch {
    // It has ended meanwhile.
    return 0;
  }
}

/** The computers whose homes are in `dir`. `answer` is asked by the binding; `close` ends all that runs. `path` has bubblewrap. */
export function serveComputers(dir: string, path = PATH) {
  /** What ends each command that runs, by its computer and its name. */
  const running = new Map<string, Map<string, (why: string) => void>>();
  const homeOf = (id: string) => {
    if (!isId("agent_computer", id)) throw new Refused("There is no such computer.");
    return join(dir, id);
  };

  /** Runs what is ours in a sandbox, for so long at most. */
  async function own(home: string, id: string, argv: string[]): Promise<void> {
    const child = start(sandbox(home, uidOf(id), { argv, keeper: true }), path);
    child.stdout.resume();
    const late = setTimeout(() => child.kill("SIGKILL"), OWN_MS);
    const code = await ending(child).finally(() => clearTimeout(late));
    if (code !== 0) throw new Error(`${argv[0]} ended with ${code}`);
  }

  async function create({ id }: Asked["create"]): Promise<void> {
    const home = homeOf(id);
    mkdirSync(home, { recursive: true, mode: 0o700 });
    if (isRoot) chownSync(home, uidOf(id), uidOf(id));
    await own(home, id, ["true"]).catch((error: NodeJS.ErrnoException) => {
      // What couldn't be made isn't there, whoever asks.
      rmdirSync(home);
      const isMissing = error.code === "ENOENT" || error.message.includes("failed to execute bwrap");
      if (isMissing) throw new Refused("bubblewrap is not installed on this machine.");
      throw new Refused(`bubblewrap can't make a computer on this machine: ${error.message}`);
    });
  }

  async function destroy({ id }: Asked["destroy"]): Promise<void> {
    // Under another name first: no command begins there any more.
    const gone = `${homeOf(id)}.gone`;
    if (existsSync(homeOf(id)) && !existsSync(gone)) renameSync(homeOf(id), gone);
    while (running.get(id)?.size) {
      for (const end of running.get(id)!.values()) end("the computer was deleted");
      await new Promise((wait) => setTimeout(wait, 20));
    }
    if (!existsSync(gone)) return;
    // From inside of a sandbox: whatever the home's links name is not to be found there.
    if (readdirSync(gone).length) await own(gone, id, ["find", "/home", "-mindepth", "1", "-delete"]);
    rmdirSync(gone);
  }

  /** Tells what a home holds, as a part of what it may: at once, and again every second, until it is ended. */
  function measure(home: string, id: string, tell: (fill: number) => void) {
    const meter = start(sandbox(home, uidOf(id), { argv: ["sh", "-c", MEASURE], home: "read", keeper: true }));
    createInterface(meter.stdout).on("line", (line) => {
      const [bytes = 0, files = 0] = line.split(" ").map(Number);
      tell(Math.max(bytes / MAX_BYTES, files / MAX_FILES));
    });
    return { ended: ending(meter), end: () => meter.kill("SIGKILL") };
  }

  async function exec({ id, run, command, dir: at, timeout_seconds }: Asked["exec"]): Promise<Ran> {
    const home = homeOf(id);
    if (!existsSync(home)) throw new Refused("The computer isn't there any more.");
    let why: string | null = null;
    let child: Child | undefined;
    const end = (reason: string) => {
      why ??= ended(reason);
      child?.kill("SIGKILL");
    };
    const runs = running.get(id) ?? new Map<string, (why: string) => void>();
    running.set(id, runs.set(run, end));
    let before: number | undefined;
    let first = (_: number) => {};
    const measured = new Promise<number>((tell) => {
      first = tell;
    });
    const meter = measure(home, id, (fill) => {
      if (before === undefined) first(fill);
      before ??= fill;
      if (fill > Math.max(1, before)) end("the computer's home holds more than 1 GB, or more than 100,000 files");
    });
    const late = setTimeout(() => end(tooLong(timeout_seconds)), timeout_seconds * 1000);
    let look: ReturnType<typeof setInterval> | undefined;
    try {
      const fill = await Promise.race([measured, meter.ended.then(() => Number.NaN)]);
      if (why !== null || Number.isNaN(fill))
        return { exit_code: null, output: why ?? ended("nobody measured its home") };
      const argv = ["sh", "-c", 'exec 2>&1; cd -- "$1" && exec sh -c "$2"', "sh", at ?? ".", command];
      child = start(sandbox(home, uidOf(id), { argv, home: fill > 2 ? "read" : fill > 1 ? "empty" : "write" }));
      const { pid, stdout } = child;
      look = setInterval(() => {
        if (residentOf(pid!) > MAX_MEMORY) end("it had more than 1 GB in memory");
      }, LOOK_MS);
      const pieces: Buffer[] = [];
      let left = MAX_OUTPUT;
      stdout.on("data", (data: Buffer) => {
        if (left > 0) pieces.push(data.subarray(0, left));
        left -= data.length;
        if (left < 0) end(TOO_MUCH);
      });
      const exit_code = await ending(child);
      const output = new TextDecoder().decode(Buffer.concat(pieces));
      if (why === null && exit_code !== null) return { exit_code, output };
      return { exit_code: null, output: output + (why ?? ended("it was killed")) };
    } finally {
      clearTimeout(late);
      clearInterval(look);
      meter.end();
      await meter.ended.catch(() => {});
      runs.delete(run);
      if (!runs.size) running.delete(id);
    }
  }

  const does: { [N in keyof Asked]: (asked: Asked[N]) => unknown } = {
    create,
    destroy,
    exec,
    exists: ({ id }) => existsSync(homeOf(id)),
    stop: ({ id, run }) => running.get(id)?.get(run)?.("it was stopped"),
  };
  return {
    /** A refusal is a 422 with its sentence; what nobody foresaw is a 500, and its words are for the log. */
    async answer(name: string, body: string): Promise<{ status: number; body: string }> {
      try {
        const done = await (does[name as keyof Asked] as (asked: unknown) => unknown)(JSON.parse(body));
        return { status: 200, body: JSON.stringify(done ?? null) };
      } catch (error) {
        if (error instanceof Refused) return { status: 422, body: error.message };
        console.error(JSON.stringify({ computers: name, error: String(error) }));
        return { status: 500, body: "" };
      }
    },
    close() {
      for (const runs of running.values()) for (const end of runs.values()) end("the server was stopped");
    },
  };
}
