/** When a place's Dispatcher is woken. Where a clock stands still, or steps back, is nowhere but here. */
import { afterEach, expect, it, vi } from "vitest";
import { NONE } from "../../../lib/db/schema.ts";
import type { Bindings } from "../../../lib/env.ts";
import { wakeDispatcher } from "../../../lib/events/remote.ts";
import { newId } from "../../../lib/ids.ts";
import { PACE } from "../../../lib/motion/pace.ts";
import type { Place } from "../../../lib/objects/stub.ts";

afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

it("whatever the clock says, one that is told of at once is woken once, and by whoever tells later again", async () => {
  const woken: string[] = [];
  const getByName = (name: string) => ({ wake: async () => void woken.push(name) });
  const env = { DISPATCHER: { getByName } } as unknown as Bindings;
  vi.stubGlobal("scheduler", { wait: (ms: number) => new Promise((done) => setTimeout(done, ms)) });
  const place = (): Place => ({ app_id: newId("app"), sandbox_id: NONE, org_id: newId("org") });
  const [one, other] = [place(), place()];
  await Promise.all([one, one, other, one].map((place) => wakeDispatcher(env, place)));
  expect(new Set(woken).size).toBe(2);
  expect(woken).toHaveLength(2);
  const before = Date.now() - 3_600_000;
  vi.spyOn(Date, "now").mockReturnValue(before);
  vi.spyOn(performance, "now").mockReturnValue(-3_600_000);
  for (const _ of [1, 2]) await wakeDispatcher(env, one);
  expect(woken.filter((name) => name.includes(one.org_id))).toHaveLength(3);
});

it("whoever has a run to begin waits for its answer alone; of a crowd behind, one comes for all", async () => {
  const woken: boolean[] = [];
  const env = { DISPATCHER: { getByName: () => ({ wake: async () => void woken.push(true) }) } };
  let waiting: { ms: number; done: () => void }[] = [];
  vi.stubGlobal("scheduler", { wait: (ms: number) => new Promise<void>((done) => waiting.push({ ms, done })) });
  /** Lets as much time pass, and what comes of it happen. */
  const pass = async (ms: number) => {
    const over = waiting.filter((one) => one.ms <= ms);
    waiting = waiting.filter((one) => one.ms > ms);
    for (const { done } of over) done();
    await new Promise((done) => setTimeout(done));
  };
  const place: Place = { app_id: newId("app"), sandbox_id: NONE, org_id: newId("org") };
  const waking = Array.from({ length: 20 }, () => wakeDispatcher(env as unknown as Bindings, place, "runs"));
  const told = wakeDispatcher(env as unknown as Bindings, place);
  await pass(PACE.answered);
  expect(woken).toEqual([true]);
  // What these have to begin was there before it was woken; what this one has, may not have been.
  const behind = wakeDispatcher(env as unknown as Bindings, place, "runs");
  await pass(PACE.told);
  await Promise.all([...waking, told, behind]);
  expect(woken).toEqual([true, true]);
  const again = wakeDispatcher(env as unknown as Bindings, place, "runs");
  await pass(PACE.answered);
  expect(woken).toHaveLength(3);
  await pass(PACE.told);
  await again;
});
