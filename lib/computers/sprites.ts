/**
 * Computers of sprites.dev, by its documentation of November 2026: REST to make and end them, a WebSocket to run a
 * command, on which each binary message begins with the stream that it is of.
 */
import { ended, MAX_OUTPUT, type Provider, type Ran, Refused, TOO_MUCH, tooLong } from "./provider.ts";

const BASE = "https://api.sprites.dev/v1/sprites";
const ANSWER_MS = 50_000;
/** Beyond a command's own time: to wake the computer, and to bring what it said. */
const SPARE_MS = 60_000;

const STDOUT = 1;
const STDERR = 2;
const EXIT = 3;
/** How `timeout` ends when it had to end the command. */
const KILLED = 137;

/** Of a name: small letters, digits and dashes. Ids tell capitals from small letters, so that those are spelled out. */
const nameOf = (id: string) =>
  `agentry-${[...new TextEncoder().encode(id.slice(4))].map((code) => code.toString(16)).join("")}`;

/** Ends the command's whole group when its time is over. Its own words are data, and never part of a line of ours. */
const SCRIPT = 'cd -- "$1" && exec timeout --signal=KILL "$2" sh -c "$3"';

export function sprites(
  token: string,
  fetch: typeof globalThis.fetch = (...asked) => globalThis.fetch(...asked),
): Provider {
  const headers = { Authorization: `Bearer ${token}` };

  /** One request. Nothing of its token, nor of what a stranger answers, is in what is thrown. */
  async function ask(method: string, address: string, good: number[], body?: object): Promise<number> {
    const answer = await fetch(`${BASE}${address}`, {
      method,
      headers: { ...headers, ...(body && { "Content-Type": "application/json" }) },
      body: body ? JSON.stringify(body) : null,
      redirect: "manual",
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    await answer.body?.cancel();
    if (good.includes(answer.status)) return answer.status;
    if ([401, 403].includes(answer.status))
      throw new Refused("sprites.dev doesn't take this deployment's SPRITES_TOKEN.");
    throw new Error(`sprites.dev answered ${answer.status}`);
  }
  const exists = async (id: string) => (await ask("GET", `/${nameOf(id)}`, [200, 404])) === 200;

  return {
    exists,
    async create(id) {
      const body = { name: nameOf(id), url_settings: { auth: "sprite" } };
      const status = await ask("POST", "", [200, 201, 400, 409, 422], body);
      // A name that is taken is a fault like any other there.
      if (status >= 400 && !(await exists(id))) throw new Refused(`sprites.dev refused to make it (${status}).`);
    },
    destroy: async (id) => void (await ask("DELETE", `/${nameOf(id)}`, [200, 202, 204, 404])),
    async exec(id, { command, dir, timeout_seconds }, signal) {
      const argv = ["sh", "-c", SCRIPT, "sh", dir ?? ".", String(timeout_seconds), command];
      const query = new URLSearchParams([
        ...argv.map((word) => ["cmd", word]),
        ["stdin", "false"],
        ["max_run_after_disconnect", "1s"],
      ]);
      const over = AbortSignal.any([signal, AbortSignal.timeout(timeout_seconds * 1000 + SPARE_MS)]);
      const answer = await fetch(`${BASE}/${nameOf(id)}/exec?${query}`, {
        headers: { ...headers, Upgrade: "websocket" },
        signal: over,
      });
      if (!answer.webSocket) {
        await answer.body?.cancel();
        if (answer.status === 404) throw new Refused("The computer isn't there any more.");
        throw new Error(`sprites.dev answered ${answer.status} to a command`);
      }
      return follow(answer.webSocket, timeout_seconds, over);
    },
  };
}

/** What comes on the command's socket, to its end. */
function follow(socket: WebSocket, seconds: number, over: AbortSignal): Promise<Ran> {
  const decoder = new TextDecoder();
  let output = "";
  let left = MAX_OUTPUT;
  return new Promise((resolve, reject) => {
    const end = (exit_code: number | null, why?: string) => {
      resolve({ exit_code, output: output + decoder.decode() + (why ? ended(why) : "") });
      socket.close(1000);
    };
    const exited = (code: number) => (code === KILLED ? end(null, tooLong(seconds)) : end(code));
    socket.addEventListener("message", ({ data }) => {
      if (typeof data === "string") {
        const code = exitCodeOf(data);
        if (code !== null) exited(code);
        return;
      }
      const message = new Uint8Array(data as ArrayBuffer);
      const said = message.subarray(1);
      if (message[0] === EXIT) exited(said[0] ?? 0);
      if (message[0] !== STDOUT && message[0] !== STDERR) return;
      output += decoder.decode(said.subarray(0, left), { stream: true });
      left -= said.length;
      if (left < 0) end(null, TOO_MUCH);
    });
    socket.addEventListener("close", () => reject(new Error("sprites.dev hung up before the command's end")));
    over.addEventListener("abort", () => {
      reject(new Error("the command was ended"));
      socket.close(1000);
    });
    socket.binaryType = "arraybuffer";
    socket.accept();
  });
}

/** What the text `{"type": "exit", "exit_code"}` says; null of any other. */
function exitCodeOf(text: string): number | null {
  try {
    const { type, exit_code } = JSON.parse(text) as { type?: unknown; exit_code?: unknown };
    return type === "exit" && Number.isInteger(exit_code) ? (exit_code as number) : null;
  } catch {
    return null;
  }
}
