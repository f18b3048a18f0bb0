import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";

const script = createRequire(import.meta.url).resolve("@modelcontextprotocol/server-everything/dist/index.js");

/** A port that nobody listens at. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  const { port } = server.address() as AddressInfo;
  await new Promise((closed) => server.close(closed));
  return port;
}

/** The reference server of the protocol, in a process of its own, over streamable HTTP. */
export async function everything() {
  const port = await freePort();
  const child = spawn(process.execPath, [script, "streamableHttp"], {
    env: { PATH: process.env.PATH, PORT: String(port) },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const ended = once(child, "exit");
  const url = `http://127.0.0.1:${port}/mcp`;
  for (let i = 0; ; i++) {
    const answer = await fetch(url, { method: "OPTIONS" }).catch(() => null);
    if (answer) break;
    if (i > 200 || child.exitCode !== null) throw new Error("the server doesn't start");
    await new Promise((wait) => setTimeout(wait, 50));
  }
  return {
    url,
    close: async () => {
      child.kill("SIGKILL");
      await ended;
    },
  };
}
