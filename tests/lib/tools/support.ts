import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { edgeWorld, runScript } from "../../../lib/script/index.ts";
import type { Given, Outside } from "../../../lib/scripts/compute.ts";
import type { Outbound, ToolAsk } from "../../../lib/tools/calls.ts";
import { masker } from "../../../lib/tools/mask.ts";

export type Asked = { method: string; url: string; headers: IncomingMessage["headers"]; body: string };
type Handler = (asked: Asked, response: ServerResponse) => void;

/** A server of this machine that notes what it is asked. */
export async function aServer(handler: Handler = (_, response) => void response.end("hello")) {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const one = { method: request.method!, url: request.url!, headers: request.headers, body };
    asked.push(one);
    handler(one, response);
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  const { port } = server.address() as AddressInfo;
  return {
    asked,
    port,
    base: `http://127.0.0.1:${port}`,
    close: async () => {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

/** A way out that may lead to this machine. */
export const open = { fetch: (url: string, init: RequestInit) => fetch(url, init), loopback: true };

/** A call as a session asks for it, and the ledger that it writes; `secrets` are masked there. */
export function anAsk(args: Record<string, unknown> = {}, more: Partial<ToolAsk> = {}, secrets: string[] = []) {
  const ledger: Outbound[] = [];
  const mask = masker(secrets);
  const ask: ToolAsk = {
    call: "tcl_1",
    attempt: 1,
    idempotency_key: "key-1",
    arguments: args,
    begun_at: "2026-01-02T03:04:05.000Z",
    signal: new AbortController().signal,
    outbound: [],
    note: (one) => {
      const noted = mask({
        ...one,
        at: new Date(Date.parse("2026-01-02T03:05:00Z") + ledger.length * 1000).toISOString(),
      });
      ledger.push(noted);
      return noted;
    },
    ...more,
  };
  return { ask, ledger };
}

/** The Worker that scripts compute in, in this process: nothing but copies passes. `call` stands for what leaves it. */
export const computer = (call: Outside["call"] | null = null) => ({
  run: async (_place: string, source: string, given: Given, outside: Outside) => {
    const leaves: Outside["call"] = async (n, one) => structuredClone(await outside.call(n, structuredClone(one)));
    const rest = async () => {
      if (!(await outside.goesOn())) throw new Error("the script was ended");
    };
    const world = { ...edgeWorld(open), rest, call: call ?? leaves };
    return structuredClone(await runScript(source, { ...structuredClone(given), world, scripts: outside.script }));
  },
});
