import * as v from "valibot";
import { lookupKey } from "../agents/schema.ts";
import { computerStatuses, type Row } from "../db/schema.ts";
import { map, metadata, nullable, rule, stamp, text } from "../http/valid.ts";

/** The contract's `vercel` is nobody's here. */
const providers = ["local", "sprites"] as const;
const isProvider = (provider: unknown) => provider === undefined || providers.some((known) => known === provider);

export const createComputerBody = v.pipe(
  v.strictObject({
    name: v.pipe(text(200), v.nonEmpty()),
    lookup_key: v.optional(v.nullable(lookupKey("agent_computer"))),
    /** Without one, what there is here: `local` under npm start, `sprites` where it is deployed. */
    provider: v.optional(v.nullable(v.picklist(providers))),
    region: v.optional(v.nullable(v.pipe(text(64), v.nonEmpty()))),
    /** What the provider is told; `provider` beside it wins over the one in it. */
    config: v.optional(v.nullable(map)),
    metadata: v.optional(v.nullable(metadata)),
  }),
  rule(
    "config",
    ({ config }) => isProvider(config?.provider),
    `names a provider other than ${providers.join(" and ")}`,
  ),
);
export type CreateComputer = v.InferOutput<typeof createComputerBody>;

export const execBody = v.strictObject({
  /** For `sh -c`; no longer than an argument can be, however many bytes its characters have. */
  command: v.pipe(text(32_768), v.nonEmpty()),
  /** Where it runs; without it, the home directory. */
  dir: v.optional(v.nullable(text(4096))),
  /** When it is ended; without it, after 120. */
  timeout_seconds: v.optional(v.nullable(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(600)))),
});

/** What a `sprite_url` brings. */
export const screenQuery = v.strictObject({ link: v.optional(text(1000)) });

export type ComputerRow = Row<"agent_computers">;

export const computer = v.strictObject({
  id: v.string(),
  app: v.string(),
  agent: v.string(),
  name: v.string(),
  lookup_key: nullable,
  provider: v.string(),
  region: v.string(),
  config: v.record(v.string(), v.unknown()),
  status: v.picklist(computerStatuses),
  error_message: nullable,
  sprite_url: nullable,
  last_active_at: v.nullable(stamp),
  metadata: v.record(v.string(), v.unknown()),
  created_at: stamp,
  updated_at: stamp,
});
export const computerList = v.strictObject({ data: v.array(computer) });
/** What a command said, and its exit code: not 0 is an answer like any other, null says that it was ended. */
export const execResult = v.strictObject({ exit_code: v.nullable(v.number()), output: nullable });

/** `sprite_url` is a link to what its terminal shows: lib/computers/screen.ts. */
export const toComputer = (row: ComputerRow, sprite_url: string | null): v.InferOutput<typeof computer> => ({
  id: row.id,
  app: row.app_id,
  agent: row.agent_id,
  name: row.name,
  lookup_key: row.lookup_key,
  provider: row.provider,
  region: row.region,
  config: row.config,
  status: row.status,
  error_message: row.error_message,
  sprite_url,
  last_active_at: row.last_active_at,
  metadata: row.metadata,
  created_at: row.created_at,
  updated_at: row.updated_at,
});
