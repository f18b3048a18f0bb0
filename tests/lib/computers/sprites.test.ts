/** What sprites.dev is asked, and what becomes of the answers that its documentation shows. It hasn't been met itself. */
import { createRequire } from "node:module";
import { describe, expect, it } from "vitest";
import { type Command, Refused } from "../../../lib/computers/provider.ts";
import { sprites } from "../../../lib/computers/sprites.ts";

const { WebSocketPair } = createRequire(import.meta.url)("miniflare") as { WebSocketPair: new () => WebSocket[] };

const ID = "cmp_0123456789abcdefghijAZ";
const NAME = "agentry-303132333435363738396162636465666768696a415a";
const TOKEN = "my-org/1/a-secret-of-sprites";
/** As the documentation has it. */
const SPRITE = {
  ...{ id: "01234567-89ab-cdef-0123-456789abcdef", name: NAME, organization: "my-org" },
  ...{ url: `https://${NAME}-abc123.sprites.app`, url_settings: { auth: "sprite" }, status: "cold" },
  ...{ created_at: "2026-01-13T10:30:00Z", updated_at: "2026-01-13T10:30:00Z" },
};

type Asked = { method: string; url: URL; headers: Headers; body: unknown };
function answering(...answers: (Response | object)[]) {
  const asked: Asked[] = [];
  const fetch = async (url: string, { method = "GET", headers, body }: RequestInit) => {
    asked.push({
      method,
      url: new URL(url),
      headers: new Headers(headers),
      body: body ? JSON.parse(String(body)) : null,
    });
    return answers.shift()!;
  };
  return { asked, provider: sprites(TOKEN, fetch as never) };
}
const answer = (status: number, body?: object) => new Response(body ? JSON.stringify(body) : null, { status });

describe("making one", () => {
  it("posts its name, and lets nobody in without a credential", async () => {
    const { asked, provider } = answering(answer(201, SPRITE));
    await provider.create(ID);
    const [{ method, url, headers, body }] = asked as [Asked];
    expect([method, url.href]).toEqual(["POST", "https://api.sprites.dev/v1/sprites"]);
    expect(headers.get("Authorization")).toBe(`Bearer ${TOKEN}`);
    expect(body).toEqual({ name: NAME, url_settings: { auth: "sprite" } });
  });

  it("finds it made, where an earlier answer was lost", async () => {
    const { asked, provider } = answering(answer(400, { error: "name is taken" }), answer(200, SPRITE));
    await provider.create(ID);
    expect(asked[1]!.url.pathname).toBe(`/v1/sprites/${NAME}`);
  });

  it.each([
    [
      "a fault that asking again doesn't mend",
      [answer(400, { errors: ["name"] }), answer(404, { error: "sprite not found" })],
    ],
    ["a token that isn't taken", [answer(401, { error: "unauthorized" })]],
  ])("is refused for %s", async (_, answers) => {
    const { provider } = answering(...answers);
    await expect(provider.create(ID)).rejects.toThrow(Refused);
  });

  it("is tried again after what passes", async () => {
    for (const status of [429, 500, 503]) {
      const failed = answering(answer(status)).provider.create(ID);
      await expect(failed).rejects.toThrow(`answered ${status}`);
      await expect(failed).rejects.not.toThrow(Refused);
    }
  });
});

it("is there or not", async () => {
  expect(await answering(answer(200, SPRITE)).provider.exists(ID)).toBe(true);
  expect(await answering(answer(404, { error: "sprite not found" })).provider.exists(ID)).toBe(false);
});

it("is ended once that is confirmed, also if it never was", async () => {
  const { asked, provider } = answering(answer(204), answer(404), answer(500));
  await provider.destroy(ID);
  await provider.destroy(ID);
  await expect(provider.destroy(ID)).rejects.toThrow("answered 500");
  expect(asked.map(({ method, url }) => `${method} ${url.pathname}`)).toEqual(
    Array(3).fill(`DELETE /v1/sprites/${NAME}`),
  );
});

describe("a command", () => {
  const command: Command = { command: 'echo "$HOME"; exit 3', dir: null, timeout_seconds: 120 };
  const frame = (stream: number, said: string | number[]) =>
    Uint8Array.from([stream, ...(typeof said === "string" ? new TextEncoder().encode(said) : said)]);
  /** Runs one, to which its socket says this. */
  async function running(
    says: (socket: WebSocket) => void,
    over: Partial<Command> = {},
    signal = new AbortController().signal,
  ) {
    const [here, there] = Object.values(new WebSocketPair()) as [WebSocket, WebSocket];
    const { asked, provider } = answering({ status: 101, webSocket: here });
    const ran = provider.exec(ID, { ...command, ...over }, signal);
    there.accept();
    setTimeout(() => says(there));
    return { asked: asked[0]!, ran, there };
  }

  it("is asked for by a socket, as words that no text can leave", async () => {
    const { asked, ran } = await running((socket) => socket.send(frame(3, [0])), { dir: "-x; ls" });
    await ran;
    expect([asked.method, asked.url.pathname, asked.headers.get("Upgrade")]).toEqual([
      ...["GET", `/v1/sprites/${NAME}/exec`, "websocket"],
    ]);
    const [sh, c, script, ...rest] = asked.url.searchParams.getAll("cmd");
    expect([sh, c, ...rest]).toEqual(["sh", "-c", "sh", "-x; ls", "120", command.command]);
    expect(script).not.toContain("ls");
    expect(asked.url.searchParams.get("max_run_after_disconnect")).toBe("1s");
    expect(asked.url.href).not.toContain("secret");
  });

  it("answers both streams as they come, and the exit code", async () => {
    const euro = [...new TextEncoder().encode("€")];
    const { ran } = await running((socket) => {
      socket.send(
        JSON.stringify({ type: "session_info", session_id: 1847, command: "sh", created: 1767609000, tty: false }),
      );
      socket.send(frame(1, "out "));
      socket.send(frame(2, "err "));
      socket.send(frame(1, euro.slice(0, 1)));
      socket.send(frame(1, euro.slice(1)));
      socket.send(frame(1, [0xff]));
      socket.send(frame(3, [3]));
    });
    expect(await ran).toEqual({ exit_code: 3, output: "out err €\uFFFD" });
  });

  it("takes the exit code as JSON, too, and no other text for one", async () => {
    const { ran } = await running((socket) => {
      for (const text of ["exit", '{"type": "exit"}', '{"type": "port_opened", "port": 1}']) socket.send(text);
      socket.send('{"type": "exit", "exit_code": 7}');
    });
    expect(await ran).toEqual({ exit_code: 7, output: "" });
  });

  it("that was ended at its time has no exit code, and says so", async () => {
    const { ran } = await running((socket) => socket.send(frame(3, [137])), { timeout_seconds: 5 });
    expect(await ran).toEqual({ exit_code: null, output: "\n[ended: it took more than 5 seconds]\n" });
  });

  it("says 1 MB and no more", async () => {
    const { ran, there } = await running((socket) => {
      for (let i = 0; i < 11; i++) socket.send(frame(1, "x".repeat(100_000)));
    });
    const closed = new Promise((hung) => there.addEventListener("close", hung));
    const { exit_code, output } = await ran;
    expect([exit_code, output]).toEqual([null, `${"x".repeat(1_000_000)}\n[ended: it said more than 1 MB]\n`]);
    await closed;
  });

  it("nobody knows the end of, where its socket closes before it, or nobody waits any more", async () => {
    const { ran } = await running((socket) => socket.close(1011));
    await expect(ran).rejects.toThrow("hung up");
    const abort = new AbortController();
    const stopped = await running(() => abort.abort(), {}, abort.signal);
    const closed = new Promise((hung) => stopped.there.addEventListener("close", hung));
    await expect(stopped.ran).rejects.not.toThrow(Refused);
    await closed;
  });

  it("is refused where the computer is no more", async () => {
    const { provider } = answering(answer(404, { error: "sprite not found" }));
    await expect(provider.exec(ID, command, new AbortController().signal)).rejects.toThrow(Refused);
  });
});
