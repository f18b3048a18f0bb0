import { describe, expect, it } from "vitest";
import { PACE } from "../../../lib/motion/pace.ts";
import { uptoOf } from "../../../lib/motion/report.ts";
import { asked, paused } from "../../../lib/motion/watch.ts";

const NOW = 1_000_000;
const past = NOW - 1;

describe("what was asked whether it goes on", () => {
  it.each([
    ["waits for somebody, or is over", null, null, { due: null, asked_at: null, stuck: false }],
    ["goes on, and says until when", null, NOW + 5, { due: NOW + 5, asked_at: null, stuck: false }],
    ["has gone on at last", NOW - 90_000, NOW + 5, { due: NOW + 5, asked_at: null, stuck: false }],
    ["doesn't, for the first time", null, past, { due: NOW + PACE.again, asked_at: NOW, stuck: false }],
    ["is at its end now", null, NOW, { due: NOW + PACE.again, asked_at: NOW, stuck: false }],
    [
      "doesn't, a moment before it must",
      NOW - PACE.goes_on + 1,
      past,
      { due: NOW + PACE.again, asked_at: NOW - PACE.goes_on + 1, stuck: false },
    ],
    [
      "doesn't, when it must",
      NOW - PACE.goes_on,
      past,
      { due: NOW + PACE.stuck, asked_at: NOW - PACE.goes_on, stuck: true },
    ],
  ] as const)("%s", (_, asked_at, until, after) => {
    expect(asked({ asked_at }, until, NOW)).toEqual(after);
  });

  it("is told to be stuck within 60 seconds of being overdue", () => {
    let watched = { due: NOW as number | null, asked_at: null as number | null, stuck: false };
    while (!watched.stuck) watched = asked(watched, past, watched.due!);
    expect(watched.due! - PACE.stuck - NOW).toBeLessThanOrEqual(60_000);
  });

  it("isn't asked in a suspended org, and begins anew after that", () => {
    expect(paused(NOW)).toEqual({ due: NOW + PACE.suspended, asked_at: null, stuck: false });
  });
});

it("sorts how far a telling has come as text, by sequence and then by name", () => {
  const upto = (sequence: number, name: string) =>
    uptoOf([
      { sequence: 1, name: "a" },
      { sequence, name },
    ]);
  const inOrder = [upto(2, "call a"), upto(2, "session"), upto(9, "a"), upto(10, "a"), upto(1_000_000, "a")];
  expect(inOrder.toSorted()).toEqual(inOrder);
});
