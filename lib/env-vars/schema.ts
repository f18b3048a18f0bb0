import * as v from "valibot";
import type { Row } from "../db/schema.ts";
import { isWithin, nullable, stamp, text } from "../http/valid.ts";

const MAX_VALUE_BYTES = 65_536;

const value = v.pipe(
  v.string(),
  v.check((value) => isWithin(value, MAX_VALUE_BYTES), "must be at most 64 KB"),
);
const description = v.optional(v.nullable(text(1000)));

export const createEnvVarBody = v.strictObject({
  /** It stays as it is: another name is another env var. */
  key: v.pipe(
    v.string(),
    v.regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, "must be 1 to 128 letters, digits and _, and not begin with a digit"),
  ),
  value,
  description,
});
export type CreateEnvVar = v.InferOutput<typeof createEnvVarBody>;

export const updateEnvVarBody = v.strictObject({ value: v.optional(value), description });
export type UpdateEnvVar = v.InferOutput<typeof updateEnvVarBody>;

/** What there is to show of an env var: never its value. */
export const shown = ["id", "agent_id", "key", "hint", "description", "created_at", "updated_at"] as const;
type Shown = Pick<Row<"agent_env_vars">, (typeof shown)[number]>;

export const envVar = v.strictObject({
  id: v.string(),
  agent: v.string(),
  key: v.string(),
  masked_value: v.string(),
  description: nullable,
  created_at: stamp,
  updated_at: stamp,
});
export const envVarList = v.strictObject({ data: v.array(envVar) });

/** The last four characters of a value, by which people tell it; none of one that has no more than these. */
export function hintOf(value: string): string | null {
  const characters = [...value];
  return characters.length > 4 ? characters.slice(-4).join("") : null;
}

export const toEnvVar = (row: Shown): v.InferOutput<typeof envVar> => ({
  id: row.id,
  agent: row.agent_id,
  key: row.key,
  masked_value: `****${row.hint ?? ""}`,
  description: row.description,
  created_at: row.created_at,
  updated_at: row.updated_at,
});
