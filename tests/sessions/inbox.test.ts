/** Messages by the thousand, from several senders, some sent twice, while the runtime is killed: each is there once. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { bearer } from "../harness/index.ts";
import { aStage, SOAK, type Stage, until, wait } from "./stage.ts";

const [MESSAGES, KILLS] = SOAK ? [10_000, 20] : [1_000, 3];
const SESSIONS = 5;
const SENDERS = 4;

let stage: Stage;
beforeAll(async () => {
  stage = await aStage();
});
afterAll(() => stage.close());

it(`keeps ${MESSAGES} messages, a fifth of them sent twice, over ${KILLS} kills: all of them, once, in each sender's order`, {
  timeout: SOAK ? 1_200_000 : 180_000,
}, async () => {
  const agent = await stage.anActor([], "read");
  const limits = { max_turns: 1_000, max_tokens: 10_000_000, start_idle: true };
  const sessions: { id: string }[] = [];
  // Each turn takes a while, so that messages come together.
  for (let i = 0; i < SESSIONS; i++)
    sessions.push(await stage.aSession(agent, [{ delay_ms: 500, text: "Ok." }], limits));
  const tokens: string[] = [];
  for (let i = 0; i < SENDERS; i++) {
    const user = i === 0 ? stage.app.owners[stage.app.acme]! : (await stage.app.aUser(stage.app.acme, "admin")).id;
    tokens.push((await stage.app.aToken(user)).access_token);
  }
  const streams = sessions.flatMap(({ id }) => tokens.map((token, sender) => ({ id, token, sender })));
  const each = MESSAGES / streams.length;
  let accepted = 0;
  let again = 0;

  /** Sends until there is an answer: what a caller does who doesn't know whether it was heard. */
  const send = async (stream: (typeof streams)[number], n: number) => {
    const request = {
      method: "POST",
      headers: { ...bearer(stream.token), "Content-Type": "application/json", "Idempotency-Key": `m-${n}` },
      body: JSON.stringify({ content: `${stream.sender}:${n}` }),
    };
    for (;;) {
      const [status, text] = await fetch(`${stage.base}/api/v1/agent_sessions/${stream.id}/message`, request)
        .then(async (answer) => [answer.status, await answer.text()] as const)
        .catch(() => [0, ""] as const);
      if (status === 200) return;
      // 429: a thousand wait. None, and above 500: it is being killed.
      if (status && status < 500 && status !== 429) throw new Error(`${status}: ${text}`);
      again++;
      await wait(100);
    }
  };
  const sending = Promise.all(
    streams.map(async (stream) => {
      for (let n = 0; n < each; n++) {
        await send(stream, n);
        if (n % 5 === 0) await send(stream, n);
        accepted++;
      }
    }),
  );
  const killing = (async () => {
    for (let k = 1; k <= KILLS; k++) {
      await until("more is accepted", () => (accepted > (k * MESSAGES) / (KILLS + 1) ? true : null), 600_000);
      stage.kill();
      await stage.isUp();
    }
  })();
  await Promise.all([sending, killing]);

  const wanted = Array.from({ length: SENDERS }, (_, sender) =>
    Array.from({ length: each }, (_, n) => `${sender}:${n}`),
  );
  for (const { id } of sessions) {
    const idle = await until("it has taken everything in", async () => {
      const session = await stage.get(id);
      return session.status === "waiting" && session.inbox.length === 0 ? session : null;
    });
    expect(idle.error).toBeNull();
    await stage.ask("POST", `/api/v1/agent_sessions/${id}/cancel`);
    const frames = await stage.frames(id);
    const received = frames.flatMap((frame) => (frame.type === "message.received" ? [frame.message] : []));
    expect(new Set(received.map((message) => message.id)).size).toBe(received.length);
    const bySender = wanted.map((_, sender) =>
      received.map(({ content }) => content).filter((content) => content.startsWith(`${sender}:`)),
    );
    expect(bySender).toEqual(wanted);
    // Each was in a prompt: the last turn's reaches to the last message.
    const started = frames.flatMap((frame) => (frame.type === "model.started" ? [frame.inbox] : []));
    const last = frames.findLast(({ type }) => type === "message.received")!;
    expect(started.at(-1)).toBe(last.sequence);
  }
  expect(again).toBeGreaterThan(0);
});
