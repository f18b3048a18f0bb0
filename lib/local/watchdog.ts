import { execFileSync, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

/** The pids of this process's children that run workerd. */
function workerds(): number[] {
  if (process.platform !== "linux") {
    const found = execFileSync("pgrep", ["-P", String(process.pid), "workerd"], { encoding: "utf8" });
    return found.split("\n").filter(Boolean).map(Number);
  }
  const tasks = `/proc/${process.pid}/task`;
  const children = readdirSync(tasks).flatMap((task) =>
    readFileSync(`${tasks}/${task}/children`, "utf8").split(" ").filter(Boolean),
  );
  return children.filter((pid) => readFileSync(`/proc/${pid}/comm`, "utf8").trim() === "workerd").map(Number);
}

/**
 * Ends workerd when this process ends, also by kill -9: left behind, it would keep the port and answer without a
 * database. A small process waits for its input to close, which the kernel does for us however we end. Answers what
 * looks again which one runs (a reload starts another), and what calls it off.
 */
export function watchWorkerd(): { look: () => void; stop: () => void } {
  const wait = "while read -r line; do pids=$line; done; kill -9 $pids 2>/dev/null";
  const watchdog = spawn("sh", ["-c", wait, "agentry-watchdog"], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  watchdog.on("error", () => {});
  watchdog.stdin.on("error", () => {});
  watchdog.unref();
  const look = () => watchdog.stdin.write(`${workerds().join(" ")}\n`);
  look();
  return { look, stop: () => watchdog.kill("SIGKILL") };
}
