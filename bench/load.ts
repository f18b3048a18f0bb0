/**
 * The load, in a process of its own so that it does not share a thread with the endpoint: a fixed number of
 * connections, each asking again as soon as it is answered. Plain sockets, since the client's CPU is the server's too.
 */
import { connect } from "node:net";
import { cpuOf } from "./processes.ts";

/** `{n}` in a body is another word of small letters and digits in every request. */
export type Request = {
  method: "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
  path: string;
  headers?: Record<string, string>;
  body?: string;
};
/** `attacks`: any answer will do, and none, too: they are counted. Else all must be successes. */
export type Load = {
  origin: string;
  requests: Request[];
  connections: number;
  seconds: number;
  pid: number;
  attacks?: boolean;
};
/**
 * Of each answer how long it took; how many there were of each status; and the CPU that the server's process had
 * meanwhile, null where it can't be read.
 */
export type Measured = {
  latencies_ms: number[];
  statuses: Record<string, number>;
  seconds: number;
  cpu_ms: number | null;
};

const TIMEOUT_MS = 10_000;
let serial = 0;
/** Of a load's requests, which is next: not always the first, since a write may be taken only so often. */
let turn = 0;
const start = Date.now().toString(36);

function render({ method, path, headers = {}, body }: Request, host: string): string {
  const text = body?.replaceAll("{n}", `${start}${serial++}`);
  const lines = [`${method} ${path} HTTP/1.1`, `Host: ${host}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  if (text !== undefined) lines.push("Content-Type: application/json", `Content-Length: ${Buffer.byteLength(text)}`);
  return `${lines.join("\r\n")}\r\n\r\n${text ?? ""}`;
}

/** Where an answer ends, or 0 as long as some of it is missing. */
function endOf(received: Buffer): number {
  const head = received.indexOf("\r\n\r\n") + 4;
  if (head < 4) return 0;
  // 204 says no length, and has no body.
  if (received.toString("latin1", 9, 12) === "204") return head;
  const length = received
    .toString("latin1", 0, head)
    .match(/\r\ncontent-length: (\d+)/i)
    ?.at(1);
  if (length !== undefined) return received.length >= head + Number(length) ? head + Number(length) : 0;
  return received.subarray(-5).toString() === "0\r\n\r\n" ? received.length : 0;
}

type Asking = { origin: string; attacks: boolean; next: () => Request; until: number; found: Measured };
const count = ({ statuses }: Measured, status: string) => {
  statuses[status] = (statuses[status] ?? 0) + 1;
};

/** One connection that asks until the time is over. */
function ask({ origin, attacks, next, until, found }: Asking): Promise<void> {
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
      found.latencies_ms.push(performance.now() - sent);
      const status = received.toString("latin1", 9, 12);
      count(found, status);
      if (!status.startsWith("2") && !attacks) {
        return socket.destroy(new Error(`an answer that is no success: ${received.toString().slice(0, 2000)}`));
      }
      send();
    });
  });
}

/** The same of an attack, which begins again where it was cut off. */
async function attack(asking: Asking): Promise<void> {
  while (performance.now() < asking.until) await ask(asking).catch(() => count(asking.found, "cut off"));
}

async function measure({ origin, requests, connections, seconds, pid, attacks = false }: Load): Promise<Measured> {
  const found: Measured = { latencies_ms: [], statuses: {}, seconds: 0, cpu_ms: null };
  const next = () => requests[turn++ % requests.length]!;
  const before = cpuOf(pid);
  const start = performance.now();
  const asking: Asking = { origin, attacks, next, until: start + seconds * 1000, found };
  await Promise.all(Array.from({ length: connections }, () => (attacks ? attack(asking) : ask(asking))));
  const after = cpuOf(pid);
  if (before !== null && after !== null) found.cpu_ms = after - before;
  found.seconds = (performance.now() - start) / 1000;
  return found;
}

process.on("message", async (load: Load) => {
  process.send?.(await measure(load).catch((error: Error) => ({ error: error.message })));
});
// On Ctrl-C the bench itself ends this process.
process.on("SIGINT", () => {});
