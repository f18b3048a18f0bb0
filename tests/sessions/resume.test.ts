/** A long run whose watchers are cut off at every frame and come back: each has seen every frame, once, byte by byte. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { aStage, SOAK, type Stage, type Told, wait } from "./stage.ts";

const FRAMES = SOAK ? 500 : 150;
let stage: Stage;
let id: string;
beforeAll(async () => {
  stage = await aStage();
  const agent = await stage.anActor(["act"], "read");
  // Each turn says something in pieces, and calls the tool, until there are no turns left.
  const rule = { text: "One piece of it, and more. ", tool_calls: [{ name: "act", arguments: { id: "r" } }] };
  const limits = { max_turns: FRAMES / 5, max_tokens: 10_000_000 };
  ({ id } = await stage.aSession(agent, [{ ...rule, pace_ms: 30 }], limits));
});
afterAll(() => stage.close());

/** Reads on after a frame, so many frames or to the end. */
async function read(after: number, most = Number.POSITIVE_INFINITY): Promise<Told[]> {
  const told: Told[] = [];
  const cut = new AbortController();
  try {
    for await (const one of stage.events(id, after, cut.signal)) {
      told.push(one);
      if (told.length >= most) break;
    }
  } finally {
    cut.abort();
  }
  return told;
}

/** What stays of a stream when the deltas of finished steps have been folded: the rest, to the byte. */
function folded(all: readonly Told[]): string[] {
  return all.flatMap(({ frame, raw }) => {
    if (frame.type === "model.delta") return [];
    return [frame.type === "model.completed" ? raw.replace(/"deltas":(null|\{[^}]*\})/, '"deltas":…') : raw];
  });
}

it(`gives a run of ${FRAMES} frames, cut at every one of them and resumed, without a gap and without a double`, {
  timeout: 300_000,
}, async () => {
  // Three watch as it happens: one never lets go, one comes back after every frame, one after every seventh.
  const whole = read(0);
  const inPieces = async (most: number) => {
    const told: Told[] = [];
    for (;;) {
      const more = await read(told.at(-1)?.id ?? 0, most);
      told.push(...more);
      if (more.length < most) return told;
    }
  };
  const [live, ...cut] = await Promise.all([whole, inPieces(1), inPieces(7)]);
  expect((await stage.get(id)).error).toMatch(/^max_turns/);
  expect(live.length).toBeGreaterThanOrEqual(FRAMES);
  // Nothing was renumbered, and nothing came twice.
  expect(live.map((told) => told.id)).toEqual(live.map((_, i) => i + 1));
  for (const { id, event, frame } of live) expect([frame.sequence, frame.type]).toEqual([id, event]);
  for (const told of cut) {
    expect(folded(told)).toEqual(folded(live));
    const ids = told.map((one) => one.id);
    expect(ids).toEqual([...new Set(ids)].sort((a, b) => a - b));
  }

  // Later, from each frame on, four at a time.
  await wait(1_000);
  const after = [0, ...live.map((told) => told.id)];
  const [all] = [await read(0)];
  const stood = new Set(all.map((told) => told.id));
  expect(folded(all)).toEqual(folded(live));
  // What isn't there any more is named by the step that stands for it.
  const named = all.flatMap(({ frame }) => {
    if (frame.type !== "model.completed" || !frame.deltas) return [];
    const { from, to } = frame.deltas;
    return Array.from({ length: to - from + 1 }, (_, i) => from + i);
  });
  const gone = live.filter((told) => !stood.has(told.id));
  expect(gone.filter((told) => !named.includes(told.id) || told.event !== "model.delta")).toEqual([]);
  const wrong: number[] = [];
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      for (let from = after.shift(); from !== undefined; from = after.shift()) {
        const rest = (await read(from)).map(({ raw }) => raw).join("");
        if (
          rest !==
          all
            .filter((told) => told.id > from!)
            .map(({ raw }) => raw)
            .join("")
        )
          wrong.push(from);
      }
    }),
  );
  expect(wrong).toEqual([]);
});
