/**
 * The load, in a process of its own so that it does not share a thread with the endpoint: a fixed number of
 * connections, each asking again as soon as it is answered. Plain sockets, since the client's CPU is the server's too.
 */
import { readFileSync } from "node:fs";
import { connect } from "node:net";

/** `{n}` in a body is another number in every request. */
export type Request = { method: "GET" | "POST"; path: string; headers?: Record<string, string>; body?: string };
export type Load = { origin: string; requests: Request[]; connections: number; seconds: number; pid: number };
/** Of each answer how long it took; and the CPU that the server's process had meanwhile, null where it can't be read. */
export type Measured = { latencies_ms: number[]; seconds: number; cpu_ms: number | null };

const TIMEOUT_MS = 10_000;
/** Linux counts a process's time in hundredths of a second (`getconf CLK_TCK`). */
const TICK_MS = 10;

/** User and system time of a process so far (proc(5): fields 14 and 15, after the name in parentheses). */
function cpuOf(pid: number): number | null {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ");
    return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
  } catch {
    return null;
  }
}

let serial = 0;
const start = Date.now().toString(36);

function render({ method, path, headers = {}, body }: Request, host: string): string {
  const text = body?.replaceAll("{n}", `${start}-${serial++}`);
  const lines = [`${method} ${path} HTTP/1.1`, `Host: ${host}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  if (text !== undefined) lines.push("Content-Type: application/json", `Content-Length: ${Buffer.byteLength(text)}`);
  return `${lines.join("\r\n")}\r\n\r\n${text ?? ""}`;
}

/** Where an answer ends, or 0 as long as some of it is missing. */
function endOf(received: Buffer): number {
  const head = received.indexOf("\r\n\r\n") + 4;
  if (head < 4) return 0;
  const length = received
    .toString("latin1", 0, head)
    .match(/\r\ncontent-length: (\d+)/i)
    ?.at(1);
  if (length !== undefined) return received.length >= head + Number(length) ? head + Number(length) : 0;
  return received.subarray(-5).toString() === "0\r\n\r\n" ? received.length : 0;
}

/** One connection that asks until the time is over. */
function ask(origin: string, next: () => Request, until: number, latencies_ms: number[]): Promise<void> {
  const { hostname, port, host } = new URL(origin);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    let received = Buffer.alloc(0);
    let sent = 0;
    const send = () => {
      if (performance.now() >= until) {
        socket.end();
        return resolve();
      }
      received = Buffer.alloc(0);
      sent = performance.now();
      socket.write(render(next(), host));
    };
    socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error(`no answer within ${TIMEOUT_MS} ms`)));
    socket.on("connect", send);
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("the server closed a connection")));
    socket.on("data", (chunk) => {
      received = received.length ? Buffer.concat([received, chunk]) : chunk;
      if (!endOf(received)) return;
      latencies_ms.push(performance.now() - sent);
      if (!/^HTTP\/1\.1 2\d\d /.test(received.toString("latin1", 0, 13))) {
        return socket.destroy(new Error(`an answer that is no success: ${received.toString().slice(0, 2000)}`));
      }
      send();
    });
  });
}

async function measure({ origin, requests, connections, seconds, pid }: Load): Promise<Measured> {
  const latencies_ms: number[] = [];
  let i = 0;
  const next = () => requests[i++ % requests.length]!;
  const before = cpuOf(pid);
  const start = performance.now();
  const until = start + seconds * 1000;
  await Promise.all(Array.from({ length: connections }, () => ask(origin, next, until, latencies_ms)));
  const after = cpuOf(pid);
  return {
    latencies_ms,
    seconds: (performance.now() - start) / 1000,
    cpu_ms: before === null || after === null ? null : after - before,
  };
}

process.on("message", async (load: Load) => {
  process.send?.(await measure(load).catch((error: Error) => ({ error: error.message })));
});
// On Ctrl-C the bench itself ends this process.
process.on("SIGINT", () => {});
