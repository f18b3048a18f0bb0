/**
 * What a request changed, wherever it lives: triggers of the walk's own database note every row that is made, changed
 * or deleted. To compare all rows before with all rows after would cost as much as there are rows and tables, ten
 * times an operation; and a change that is taken back would not be seen.
 */
import type { Database } from "../../lib/local/neon.ts";
import type { Place } from "./places.ts";

type Row = Record<string, unknown>;
/** A row before and after; null where there was none, or is none any more. */
export type Change = { table: string; was: Row | null; is: Row | null };

/** Watches every table of the database; what is answered takes away what was noted since it was last called. */
export async function watch(database: Database): Promise<() => Promise<Change[]>> {
  // Its own schema, and its owner's rights: the product's roles can neither see nor touch it.
  await database.exec(`
    create schema watch;
    create table watch.changes (n bigint generated always as identity, "table" text, was jsonb, "is" jsonb);
    create function watch.note() returns trigger language plpgsql security definer set search_path = '' as $$
    declare
      -- When a credential was last used is written after the answer, and is no secret; so is what number an event has, and
      -- when the sweep last looked at a webhook endpoint.
      told text[] := array['last_used_at', 'looked_at'] || case tg_table_name when 'events' then 'sequence' end
        -- A browser's use keeps its sign-in alive.
        || case tg_table_name when 'token_families' then 'expires_at' end;
      was jsonb := to_jsonb(old) - told;
      now jsonb := to_jsonb(new) - told;
    begin
      -- How far the numbers have come.
      if tg_table_name = 'event_heads' then return null; end if;
      -- A sandbox's mail is kept after the answer, beside whoever asks then: tests/developer/mails.test.ts has whose it is.
      if tg_table_name = 'sandbox_mails' and tg_op = 'INSERT' then return null; end if;
      if was is distinct from now then insert into watch.changes ("table", was, "is") values (tg_table_name, was, now); end if;
      return null;
    end $$;
    do $$ declare t text; begin
      for t in select table_name from information_schema.tables where table_schema = 'data' loop
        execute format('create trigger watch after insert or update or delete on data.%I for each row execute function watch.note()', t);
      end loop;
    end $$`);
  return () =>
    database.query<Change>(`with seen as (delete from watch.changes returning *)
      select "table", was, "is" from seen order by n`);
}

/** Whether the change is one of the place's rows, of its partition's own, or of its app's record. */
export const touches = ({ table, was, is }: Change, { app, sandbox, org }: Place): boolean =>
  [was, is].some((row) =>
    table === "apps"
      ? row?.id === app
      : row?.app_id === app && row.sandbox_id === (sandbox ?? "-") && [org, "-"].includes(String(row.org_id)),
  );

/** What was set going, by its id, and where. */
export type GoingOn = Map<string, Place>;
const IDS = /[a-z]{3}_[0-9A-Za-z]{22}/g;
/** What sessions and runs write down by themselves. */
const BY_ITSELF = [
  ...["agent_sessions", "tool_calls", "model_calls", "agent_routine_runs", "activity_feed_entries", "events"],
  ...["event_waits", "event_heads", "agent_health_actions", "agents"],
];

/**
 * Whether the change is of something that was set going in a place, or of what came of that, and is in that place alone:
 * on a machine that is held up it comes long after the answer, while others ask. What comes of it is kept in mind; nothing
 * goes by itself.
 */
export function goesOn({ table, was, is }: Change, goingOn: GoingOn): boolean {
  if (!BY_ITSELF.includes(table) || !is) return false;
  const rows = [was, is].filter((row) => row !== null);
  const ids = rows.flatMap((row) => JSON.stringify(row).match(IDS) ?? []);
  const place = ids.map((id) => goingOn.get(id)).find((found) => found !== undefined);
  const isThere = place && rows.every((row) => row.org_id === place.org);
  if (isThere && !was && typeof is?.id === "string") goingOn.set(is.id, place);
  return isThere === true;
}
