/** When a place's Dispatcher is woken. Where a clock stands still, or steps back, is nowhere but here. */
import { afterEach, expect, it, vi } from "vitest";
import { NONE } from "../../../lib/db/schema.ts";
import type { Bindings } from "../../../lib/env.ts";
import { wakeDispatcher } from "../../../lib/events/remote.ts";
import { newId } from "../../../lib/ids.ts";
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
