import { isMap } from "../http/valid.ts";
import type { Json } from "../script/index.ts";

const YEAR_S = 31_536_000;

/**
 * Until when a `wait` waits at the latest, in milliseconds since 1970, by its evaluated arguments: `{seconds}`, `{until}` or
 * `{event, filters, timeout_seconds}`. Throws an error with a sentence for people.
 */
export function waitUntil(args: Json, now: number): number {
  const { seconds, until, timeout_seconds } = isMap(args) ? args : {};
  if (typeof until === "string") {
    const instant = /^\d{4}-\d{2}-\d{2}T/.test(until) ? Date.parse(until) : Number.NaN;
    if (Number.isNaN(instant)) throw new Error("until is no instant of ISO 8601");
    if (instant > now + YEAR_S * 1000) throw new Error("until is more than a year away");
    return Math.max(instant, now);
  }
  const [field, length] = seconds === undefined ? ["timeout_seconds", timeout_seconds ?? YEAR_S] : ["seconds", seconds];
  if (typeof length !== "number" || !(length >= 0 && length <= YEAR_S)) {
    throw new Error(`${field} must be a number from 0 to ${YEAR_S}`);
  }
  return now + length * 1000;
}
