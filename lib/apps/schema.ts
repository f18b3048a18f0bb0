import * as v from "valibot";
import type { Row } from "../db/schema.ts";
import { list, map, stamp, text } from "../http/valid.ts";

const number = (min: number, max: number) => v.pipe(v.number(), v.integer(), v.minValue(min), v.maxValue(max));
const whole = (min: number, max: number) => v.optional(v.nullable(number(min, max)));
const days = v.optional(number(1, 3650));
const quota = v.optional(number(1, 100_000));

const seconds = (most: number) => v.optional(number(300, most));
const address = v.pipe(text(254), v.regex(/^[^\s@]*@[^\s@]+$/, "must be an address, or @ and a domain"));
const host = v.pipe(
  text(260),
  v.regex(/^[a-z0-9.-]+(:\d{1,5})?$/i, "must be a host such as example.com or localhost:3000"),
);

/** How the app's people sign in; what isn't set is as it is without any of it. */
const auth = v.pipe(
  map,
  v.strictObject({
    /** By what; without it, by all three. */
    methods: v.optional(list(v.picklist(["email_code", "magic_link", "password"]), 3)),
    /** Who may register: nobody, or whoever proves an address, into the org of its domain or one of its own. */
    sign_up: v.optional(v.picklist(["closed", "company", "personal"])),
    /** Where links may lead. */
    redirect_hosts: v.optional(list(host, 50)),
    /** Which addresses may sign in, or `@domain`; none means all. */
    allowed_emails: v.optional(list(address, 500)),
    /** Whether programs of others may ask people for a part of their rights. */
    third_party_oauth: v.optional(v.boolean()),
    /** How long a sign-in lives unused, and at most, of programs and of browsers. It may only be shorter. */
    session: v.optional(
      v.pipe(
        map,
        v.strictObject({
          api_idle_seconds: seconds(2_592_000),
          api_absolute_seconds: seconds(31_536_000),
          browser_idle_seconds: seconds(604_800),
          browser_absolute_seconds: seconds(2_592_000),
        }),
      ),
    ),
  }),
);

/** What an app may set; null takes back what was set. */
const settings = v.pipe(
  map,
  v.strictObject({
    /** How often a routine's schedule may come at most; without it, every 60 seconds. */
    min_routine_interval_seconds: whole(60, 86_400),
    /** How many days entries of the activity feed are kept; without it, 400. */
    activity_retention_days: whole(1, 3650),
    /** How many days these are kept; without a number, runs 90, all others 30. */
    retention_days: v.optional(
      v.nullable(
        v.pipe(
          map,
          v.strictObject({
            ...{ events: days, occurrences: days, runs: days, webhook_deliveries: days },
            // Receipts are what a webhook knows a delivery by that comes again.
            webhook_receipts: v.optional(number(7, 3650)),
          }),
        ),
      ),
    ),
    auth: v.optional(v.nullable(auth)),
    /** What each of its orgs may have under way: see lib/quotas.ts for what holds without a number. */
    quotas: v.optional(
      v.nullable(
        v.pipe(
          map,
          v.strictObject({
            runs_at_once: quota,
            runs_at_once_of_an_agent: quota,
            runs_started_per_minute: quota,
            webhook_attempts_at_once: quota,
            webhook_deliveries_waiting: quota,
            webhook_endpoints: quota,
            inbound_webhooks: quota,
            computers: quota,
            ...{ schedules: quota, event_subscriptions: quota, event_waits: quota, automations: quota },
          }),
        ),
      ),
    ),
  }),
);

export const updateAppBody = v.strictObject({
  name: v.optional(v.pipe(text(200), v.nonEmpty())),
  settings: v.optional(settings),
});
export type UpdateApp = v.InferOutput<typeof updateAppBody>;

export type AppRow = Row<"apps">;

export const app = v.strictObject({
  id: v.string(),
  name: v.string(),
  settings: v.record(v.string(), v.unknown()),
  created_at: stamp,
  updated_at: stamp,
});
export const toApp = (row: AppRow): v.InferOutput<typeof app> => ({
  id: row.id,
  name: row.name,
  settings: row.settings,
  created_at: row.created_at,
  updated_at: row.updated_at,
});
export const appList = v.strictObject({ data: v.array(app) });
