/** What starts a routine or an automation: by an event's name, what of it does. */
import * as v from "valibot";
import { map, text } from "../http/valid.ts";
import { policies } from "../schedules/schema.ts";
import { timeZone } from "../schedules/time-zone.ts";

/** Under which an `event_config` has what concerns the clock. */
export const CRON_EVENT = "schedule.cron";

/** Whatever an event of the app's own may be called, too. */
export const eventName = v.pipe(
  text(100),
  v.regex(/^[a-z0-9_][a-z0-9_.-]*$/, "must be an event's name, as thread.message_added"),
);
const whole = (min: number, max: number) =>
  v.optional(v.nullable(v.pipe(v.number(), v.integer(), v.minValue(min), v.maxValue(max))));

/** By event, what of it starts the routine; of the clock, where it stands. */
export const eventConfig = v.pipe(
  map,
  v.check((events) => Object.keys(events).length <= 50, "must name at most 50 events"),
  v.check((events) => Object.keys(events).every((name) => v.is(eventName, name)), "names what is no event's name"),
  v.check(
    (events) => Object.values(events).every((event) => v.is(v.looseObject(eventFields), event)),
    "has filters that are no map, a dedupe_key_path that is no text, a timezone that is none of the IANA database, or a policy that is none",
  ),
);
const eventFields = {
  filters: v.optional(v.nullable(map)),
  dedupe_key_path: v.optional(v.nullable(text(200))),
  timezone: v.optional(timeZone),
  dedupe_window_seconds: whole(1, 31_536_000),
  max_concurrent: whole(1, 100),
  /** Whether it reacts to what its own runs led to. */
  allow_self: v.optional(v.nullable(v.boolean())),
  ...policies,
};
