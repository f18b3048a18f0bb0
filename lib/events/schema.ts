import { toJsonSchema } from "@valibot/to-json-schema";
import * as v from "valibot";
import { type Row, real } from "../db/schema.ts";
import { idOf, isWithinAsJson, list, map, nullable, stamp, text } from "../http/valid.ts";
import { positive } from "../paging.ts";
import { catalogue, type EventType, MAX_NAME, MAX_PAYLOAD, typeOf } from "./catalogue.ts";

const MAX_PAGE = 500;

/** The exact name of an event that there is. */
export const eventName = v.pipe(
  text(MAX_NAME),
  v.check((name) => typeOf(name) !== null && !name.endsWith("*"), "must be the exact name of an event"),
);

export const listEventsQuery = v.object({
  /** A sequence, or the cursor that stands in its place: those that follow it. Without it, from the oldest kept. */
  after: v.optional(v.pipe(text(200), v.nonEmpty())),
  event_names: v.optional(list(eventName, 100)),
  limit: v.optional(
    v.pipe(
      positive,
      v.transform((limit) => Math.min(limit, MAX_PAGE)),
    ),
    "100",
  ),
  /** Of which org: for keys, which without it see the app's own. */
  org: v.optional(idOf("org")),
});
export type ListEvents = v.InferOutput<typeof listEventsQuery>;

export const createEventBody = v.strictObject({
  name: v.pipe(
    eventName,
    v.check(
      (name) => name.startsWith("custom."),
      'must begin with "custom.": the others are told by what happens here',
    ),
  ),
  payload: v.pipe(
    map,
    v.check((payload) => isWithinAsJson(payload, MAX_PAYLOAD), "must be at most 32 KB as JSON"),
  ),
  /** While the first is kept, an event of the same name and key is not written again. */
  dedupe_key: v.optional(v.nullable(v.pipe(text(255), v.nonEmpty()))),
  org: v.optional(v.nullable(idOf("org"))),
});
export type CreateEvent = v.InferOutput<typeof createEventBody>;

export type EventRow = Row<"events">;

export const domainEvent = v.strictObject({
  id: v.string(),
  event_name: v.string(),
  payload: v.record(v.string(), v.unknown()),
  org: nullable,
  sandbox: nullable,
  team: v.null(),
  user: nullable,
  agent: nullable,
  idempotency_key: nullable,
  /** Its number in its org, without a gap; null until it is given. Keys, owners and admins see it. */
  sequence: v.nullable(v.number()),
  /** What the others see in its place. */
  cursor: nullable,
  created_at: stamp,
});
export const eventPage = v.strictObject({
  data: v.array(domainEvent),
  /** What `after` is to be next time. */
  next_after: v.union([v.number(), v.string()]),
  /** Of the oldest event that is kept. Null: there is none, or it isn't for the viewer to see. */
  oldest_sequence: v.nullable(v.number()),
});

/** How a viewer sees where an event stands: its number, or a cursor that says nothing of how many there are. */
export type Numbering = (sequence: number) => Promise<number | string>;

export async function toDomainEvent(row: EventRow, numbered: Numbering): Promise<v.InferOutput<typeof domainEvent>> {
  const place = row.sequence === null ? null : await numbered(row.sequence);
  return {
    id: row.id,
    event_name: row.name,
    payload: row.payload,
    org: real(row.org_id),
    sandbox: real(row.sandbox_id),
    team: null,
    user: row.user_id,
    agent: row.agent_id,
    idempotency_key: row.idempotency_key,
    sequence: typeof place === "number" ? place : null,
    cursor: typeof place === "string" ? place : null,
    created_at: row.created_at,
  };
}

export const eventType = v.strictObject({
  /** One that ends in `*` stands for all names that begin so. */
  name: v.string(),
  version: v.number(),
  description: v.string(),
  /** JSON Schema of the payload. */
  payload_schema: v.record(v.string(), v.unknown()),
  sample: v.record(v.string(), v.unknown()),
});
export const eventTypeList = v.strictObject({ data: v.array(eventType) });

export const toEventType = (name: string, type: EventType): v.InferOutput<typeof eventType> => {
  const { $schema: _, ...payload_schema } = toJsonSchema(type.schema, {
    errorMode: "ignore",
    overrideSchema: ({ valibotSchema }) => (valibotSchema === map ? { type: "object" } : null),
  });
  const { version, description, sample } = type;
  return { name, version, description, payload_schema, sample: sample as Record<string, unknown> };
};
export const toEventTypes = () => ({ data: [...catalogue].map(([name, type]) => toEventType(name, type)) });
