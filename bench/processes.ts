/** What /proc says of processes (proc(5)): their CPU and their children. */
import { readdirSync, readFileSync } from "node:fs";

/** Linux counts a process's time in hundredths of a second (`getconf CLK_TCK`). */
const TICK_MS = 10;

/** What stands after the name, which is in parentheses; null where there is no such process, or no /proc. */
function statOf(pid: number): { name: string; fields: string[] } | null {
  try {
    const [head, rest] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ");
    return { name: head!.split(" (")[1]!, fields: rest!.split(" ") };
  } catch {
    return null;
  }
}

/** User and system time of a process so far (fields 14 and 15), in milliseconds. */
export function cpuOf(pid: number): number | null {
  const stat = statOf(pid);
  return stat && (Number(stat.fields[11]) + Number(stat.fields[12])) * TICK_MS;
}

/** The ids of a process's children, or of those of a name; none where there is no /proc. */
export function childrenOf(parent: number, name?: string): number[] {
  let pids: string[] = [];
  try {
    pids = readdirSync("/proc").filter((entry) => /^\d+$/.test(entry));
  } catch {}
  return pids.map(Number).filter((pid) => {
    const stat = statOf(pid);
    return Number(stat?.fields[1]) === parent && (name === undefined || stat?.name === name);
  });
}
