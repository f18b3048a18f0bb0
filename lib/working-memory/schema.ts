import * as v from "valibot";
import type { Row } from "../db/schema.ts";
import { moment, stamp, text } from "../http/valid.ts";
import { pageOf, pageQuery } from "../paging.ts";

export const listMemoryQuery = v.object({ ...pageQuery, search: v.optional(text(200)) });
export type ListMemory = v.InferOutput<typeof listMemoryQuery>;

/** `expires_at: null` is never. One in the past hides the entry. */
export const updateMemoryBody = v.strictObject({
  value: v.optional(text(65_536)),
  expires_at: v.optional(v.nullable(moment)),
});

export const memoryEntry = v.strictObject({
  id: v.string(),
  agent: v.string(),
  key: v.string(),
  value: v.string(),
  expires_at: v.nullable(stamp),
  created_at: stamp,
  updated_at: stamp,
});
export const memoryPage = pageOf(memoryEntry);

export const toMemoryEntry = (row: Row<"agent_working_memory">): v.InferOutput<typeof memoryEntry> => ({
  id: row.id,
  agent: row.agent_id,
  key: row.key,
  value: row.value,
  expires_at: row.expires_at,
  created_at: row.created_at,
  updated_at: row.updated_at,
});
