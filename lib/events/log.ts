/** What happened in an org, in the order of its numbers. Each org, and the app itself, has its own. */
import { type RawBuilder, sql } from "kysely";
import { isAdmin, isHeld, passes } from "../auth/acl.ts";
import { open, seal } from "../auth/secrets.ts";
import { NONE, type Tenant, type Viewer } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { ApiError, badRequest, eventsExpired, noSuch, notFound } from "../errors.ts";
import type { Id } from "../ids.ts";
import type { Place } from "../objects/stub.ts";
import { emitting } from "./emit.ts";
import type { CreateEvent, EventRow, ListEvents, Numbering } from "./schema.ts";

/** The database of the one place whose events are meant: of the org that a key names or the app's own, else the viewer's. */
export function placeOf(db: TenantDb, org: Id<"org"> | null | undefined): TenantDb {
  if (db.viewer.kind === "user" && org && org !== db.viewer.org) throw noSuch("org");
  return db.viewer.kind === "key" ? db.inOrg(org ?? NONE) : db;
}

/** The row of that place, for what is written there. */
export const placeRow = (place: TenantDb) =>
  place.selectFrom("tenants").where("tenants.org_id", "=", place.tenant.kind === "org" ? place.tenant.org : NONE);

/** So many are numbered in a statement. */
export const MOST_NUMBERED = 1000;
/**
 * Gives numbers to what has none, in the order in which it happened, and answers to how many. Until its transaction ends
 * nobody else does: what has no number then comes behind.
 */
export const numbers = (db: TenantDb) => db.call<{ n: number }>("number_events", [MOST_NUMBERED], "number_events as n");

/** Who may read an event, reads it wherever it is shown: as the feed's entries, whom it is about or who did it, too. */
export const readable = (viewer: Viewer) => passes(viewer, "readers", { user: "user_id" }, "everyone");

/** Whether the viewer sees numbers: they tell how much happens that not everybody may read. */
export const seesNumbers = (viewer: Viewer): RawBuilder<boolean> => (isHeld(viewer) ? isAdmin(viewer) : sql.lit(true));

/** Digits enough that no cursor tells by its length how large a number is in it. */
const DIGITS = 16;
const MAX_SEQUENCE = 10 ** 15;
const spotOf = ({ app, sandbox, ...tenant }: Tenant) =>
  ["events", app, sandbox, tenant.kind === "org" ? tenant.org : "*"].join(" ");

/** How the numbers of a place are shown to whoever sees them, and to everybody else. */
export const numbering =
  (roots: string, { tenant }: TenantDb, isNumbered: boolean): Numbering =>
  async (sequence) =>
    isNumbered ? sequence : seal(roots, String(sequence).padStart(DIGITS, "0"), spotOf(tenant));

const noSuchCursor = () =>
  badRequest(
    "invalid_cursor",
    "This does not open here. Take `after` from `next_after` of an answer, or from an event.",
  );

/** The number that `after` stands for: a bare one, or one that is sealed for this place. */
async function readAfter(roots: string, { tenant }: TenantDb, after = "0"): Promise<number> {
  const digits = isBare(after) ? after : await open(roots, after, spotOf(tenant));
  if (digits === null) throw noSuchCursor();
  return Math.min(Number(digits), MAX_SEQUENCE);
}
const isBare = (after: string) => /^\d{1,15}$/.test(after);

/** A stretch of what happened in a place. */
export type Stretch = {
  place: Place;
  /** Some events there have no number yet, and so aren't among these. */
  waits: boolean;
  rows: EventRow[];
  /** Behind which there may be more. */
  next: number;
  /** The oldest that is kept; null where there is none, and to who sees no numbers. */
  oldest: number | null;
  numbered: Numbering;
};

/**
 * The events that follow `after`, or the oldest kept, and that the viewer may read, in order. 410 where some of those that
 * follow are kept no longer; 422 on an org that isn't there; 400 on a cursor of elsewhere, or a number from who sees none.
 */
export async function listEvents(
  db: TenantDb,
  roots: string,
  { after, event_names, limit, org }: ListEvents,
): Promise<Stretch> {
  const place = placeOf(db, org);
  const from = await readAfter(roots, place, after);
  const heads = place.selectFrom("event_heads");
  const waiting = place.selectFrom("events").where("sequence", "is", null).select(sql`1`.as("one"));
  let events = place
    .selectFrom("events")
    .where("sequence", ">", from)
    // Where there is no such row, none has a number.
    .where(sql<boolean>`sequence > (${heads.select("expired")})`)
    .where(readable(db.viewer));
  if (event_names) events = events.where("name", "in", event_names);
  const { at, rows } = await place.batch({
    at: placeRow(place)
      .select(["app_id", "sandbox_id", "org_id"])
      .select([
        sql<boolean>`exists (${waiting})`.as("waits"),
        sql<number>`coalesce((${heads.select("sequence")}), 0)`.as("head"),
        sql<number>`coalesce((${heads.select("expired")}), 0)`.as("expired"),
        seesNumbers(db.viewer).as("isNumbered"),
      ]),
    rows: events.selectAll().orderBy("sequence").limit(limit),
  });
  if (!at[0]) throw noSuch("org");
  const { waits, head, expired, isNumbered, ...row } = at[0];
  if (after && isBare(after) && !isNumbered) throw noSuchCursor();
  if (after && from < expired) throw eventsExpired();
  return {
    ...{ place: row, waits, rows },
    next: rows.length === limit ? rows.at(-1)!.sequence! : Math.max(from, head),
    oldest: isNumbered && head > expired ? expired + 1 : null,
    numbered: numbering(roots, place, isNumbered),
  };
}

/** An event by its id, with how its number is shown to the viewer. 404 unless the viewer may read it. */
export async function getEvent(db: TenantDb, roots: string, id: Id<"event">): Promise<[EventRow, Numbering]> {
  const { isNumbered, ...row } = await db
    .selectFrom("events")
    .where("id", "=", id)
    .where(readable(db.viewer))
    .selectAll()
    .select(seesNumbers(db.viewer).as("isNumbered"))
    .executeTakeFirstOrThrow(() => notFound("event"));
  return [row as EventRow, numbering(roots, placeOf(db, row.org_id === NONE ? null : row.org_id), isNumbered)];
}

/**
 * Writes an event that the app's own code tells of; where one of its name and `dedupe_key` is kept, answers that. 422 on an
 * org that isn't there.
 */
export async function createEvent(
  db: TenantDb,
  id: Id<"event">,
  { name, payload, dedupe_key = null, org }: CreateEvent,
): Promise<EventRow> {
  const place = placeOf(db, org);
  const same = place.selectFrom("events").where("name", "=", name).where(sql<boolean>`idempotency_key = ${dedupe_key}`);
  const free = placeRow(place).where(sql<boolean>`not exists (${same.select(sql`1`.as("one"))})`);
  const write = () =>
    place.batch({
      made: emitting(place, free, { id, name: name as `custom.${string}`, payload, idempotency_key: dedupe_key }),
      before: same.selectAll(),
      found: placeRow(place).select("org_id"),
    });
  const { made, before, found } = await write().catch((error) => {
    // Written by another request at this moment: now it is there to be seen.
    if (error instanceof ApiError && error.fields[0]?.field === "dedupe_key") return write();
    throw error;
  });
  if (!found.length) throw noSuch("org");
  return (made[0] ?? before[0]) as EventRow;
}
