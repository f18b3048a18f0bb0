/** Whether an event starts a routine, or an automation, as a pure function of both. */
import type { Row } from "../db/schema.ts";
import { isMap } from "../http/valid.ts";

/** A routine's run leads to events, which lead to runs: of such a chain the ninth link is skipped. */
export const MAX_CAUSES = 8;
export const DEDUPE_WINDOW_S = 86_400;

type Event = Pick<Row<"events">, "name" | "payload" | "readers" | "causes" | "position">;
type Routine = Pick<
  Row<"agent_routines"> | Row<"automations">,
  "id" | "agent_id" | "user_id" | "event_type" | "event_config" | "heard_since"
>;
/** What of an event starts a routine: the fields of `event_config` by the event's name. */
type Trigger = {
  filters?: Record<string, unknown> | null;
  dedupe_key_path?: string | null;
  dedupe_window_seconds?: number | null;
  allow_self?: boolean | null;
};

export type Firing = { dedupe_key: string | null; dedupe_window_s: number; reason: "loop" | null };

/** How the event starts it; null where it doesn't. `user_id` is a co-owner, or whom it acts as, who is still there. */
export function firing(event: Event, routine: Routine): Firing | null {
  const trigger = triggerOf(event, routine);
  if (!trigger || !isHeard(event, routine)) return null;
  const { filters, dedupe_key_path, dedupe_window_seconds, allow_self } = trigger;
  if (!mayRead(event, routine) || !matches(filters ?? {}, event.payload)) return null;
  if (event.causes.includes(routine.id) && !allow_self) return null;
  const value = dedupe_key_path ? valueAt(event.payload, dedupe_key_path) : undefined;
  return {
    dedupe_key: value === undefined || value === null ? null : canonical(value),
    dedupe_window_s: typeof dedupe_window_seconds === "number" ? dedupe_window_seconds : DEDUPE_WINDOW_S,
    reason: event.causes.length >= MAX_CAUSES ? "loop" : null,
  };
}

/** An org's cursor may stand far back. */
const isHeard = ({ name, position }: Event, { heard_since }: Routine) =>
  position > (heard_since?.[name] ?? Number.POSITIVE_INFINITY);

function triggerOf({ name }: Event, { event_type, event_config }: Routine): Trigger | null {
  if (event_config && Object.hasOwn(event_config, name)) return (event_config[name] ?? {}) as Trigger;
  return event_type === name ? {} : null;
}

/** An agent reacts to what it may read alone; so does an automation, as whom it acts as, or as everybody. */
export function mayRead(
  { readers }: Pick<Event, "readers">,
  { agent_id, user_id }: Pick<Routine, "agent_id" | "user_id">,
): boolean {
  const own = ["everyone", ...(agent_id ? [`agent:${agent_id}`] : []), ...(user_id ? [`user:${user_id}`] : [])];
  return readers === null || readers.some((reader) => own.includes(reader));
}

/** Whether the payload has each of these values at its path. What isn't there is null. */
export const matches = (filters: Record<string, unknown>, payload: Record<string, unknown>): boolean =>
  Object.entries(filters).every(
    ([path, value]) => canonical(valueAt(payload, path) ?? null) === canonical(value ?? null),
  );

/** What stands at `a.b`, also spelt `$.a.b`; undefined where nothing does. */
export function valueAt(payload: Record<string, unknown>, path: string): unknown {
  return path
    .replace(/^\$\.?/, "")
    .split(".")
    .filter((key) => key !== "")
    .reduce<unknown>((at, key) => (isMap(at) && Object.hasOwn(at, key) ? at[key] : undefined), payload);
}

/** The same for the same value, whatever the order of its keys. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, inner: unknown) =>
    isMap(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))) : inner,
  );
