import * as v from "valibot";
import { real } from "../db/schema.ts";
import { nullable, stamp } from "../http/valid.ts";
import { frameSchemas } from "../sessions/frames.ts";
import type { SessionRow } from "../sessions/remote.ts";

const frames = v.array(v.variant("type", Object.values(frameSchemas) as never));

/** What a session's history is known by. `messages` stand last: they are written as they are read. */
const known = {
  id: v.string(),
  session: v.string(),
  org: nullable,
  sandbox: nullable,
  team: v.null(),
  file: v.null(),
  created_at: stamp,
  updated_at: stamp,
};
export const trajectory = v.strictObject({ ...known, messages: v.array(v.record(v.string(), v.unknown())) });
export const contents = v.strictObject({ id: v.string(), session: v.string(), frames });

export const toKnown = (row: SessionRow) => ({
  id: row.trajectory_id,
  session: row.id,
  org: real(row.org_id),
  sandbox: real(row.sandbox_id),
  team: null,
  file: null,
  created_at: row.started_at ?? row.created_at,
  updated_at: row.updated_at,
});
