import { expect, it } from "vitest";
import type { Json } from "../../../lib/script/index.ts";
import { waitUntil } from "../../../lib/workflows/wait.ts";

const now = Date.parse("2026-03-01T12:00:00Z");
const YEAR = 31_536_000;

it.each<[Json, number]>([
  [{ seconds: 0 }, 0],
  [{ seconds: 1.5 }, 1.5],
  [{ seconds: YEAR }, YEAR],
  [{ until: "2026-03-01T12:00:10Z" }, 10],
  [{ until: "2026-03-01T14:00:00+01:00" }, 3600],
  [{ until: "2020-01-01T00:00:00Z" }, 0],
  [{ event: "custom.a", filters: null, timeout_seconds: 60 }, 60],
  [{ event: "custom.a", filters: null, timeout_seconds: null }, YEAR],
])("%j waits so many seconds: %d", (args, seconds) => {
  expect(waitUntil(args, now)).toBe(now + seconds * 1000);
});

it.each<[Json, RegExp]>([
  [{ seconds: -1 }, /seconds must be/],
  [{ seconds: YEAR + 1 }, /seconds must be/],
  [{ seconds: "5" }, /seconds must be/],
  [{ seconds: null }, /seconds must be/],
  [{ until: "tomorrow" }, /no instant/],
  [{ until: "5" }, /no instant/],
  [{ until: "2027-03-01T12:00:01Z" }, /more than a year/],
  [{ event: "custom.a", timeout_seconds: "x" }, /timeout_seconds must be/],
])("%j is refused", (args, says) => {
  expect(() => waitUntil(args, now)).toThrow(says);
});
