import * as v from "valibot";
import type { Row } from "../db/schema.ts";
import { idOf, moment, nullable, rule, stamp, text } from "../http/valid.ts";
import type { KeyRow } from "../keys/schema.ts";
import { key, toKey } from "../keys/schema.ts";
import { slug } from "../orgs/schema.ts";
import { pageOf, pageQuery } from "../paging.ts";

const inFuture = v.pipe(
  moment,
  v.check((text) => Date.parse(text) > Date.now(), "must be in the future"),
);

export const createSandboxBody = v.pipe(
  v.strictObject({
    name: v.pipe(text(200), v.nonEmpty()),
    slug,
    org: v.nullish(idOf("org"), null),
    purpose: v.nullish(v.picklist(["eval"]), null),
    expires_at: v.nullish(inFuture, null),
  }),
  rule(
    "expires_at",
    ({ purpose, expires_at }) => (purpose === null) === (expires_at === null),
    "goes together with purpose",
  ),
);
export type CreateSandbox = v.InferOutput<typeof createSandboxBody>;

export const listSandboxesQuery = v.object(pageQuery);

/** A sandbox, with the name of the org it was made for: a sandbox's own key can't see that one, which is production's. */
export type SandboxRow = Row<"sandboxes"> & { org_name: string | null };
export type SandboxWithKeys = { sandbox: SandboxRow; keys: KeyRow[] };

export const sandbox = v.strictObject({
  id: v.string(),
  name: v.string(),
  slug: v.string(),
  org: nullable,
  org_name: nullable,
  org_logo: v.null(),
  purpose: nullable,
  expires_at: v.nullable(stamp),
  keys: v.nullable(v.array(key)),
  created_at: stamp,
  updated_at: stamp,
});
export const sandboxPage = pageOf(sandbox);

/** The sandbox as the API shows it; a list doesn't load its keys. */
export const toSandbox = (row: SandboxRow, keys: KeyRow[] | null = null): v.InferOutput<typeof sandbox> => ({
  id: row.id,
  name: row.name,
  slug: row.slug,
  org: row.for_org_id,
  org_name: row.org_name,
  org_logo: null,
  purpose: row.purpose,
  expires_at: row.expires_at,
  keys: keys?.map((row) => toKey(row)) ?? null,
  created_at: row.created_at,
  updated_at: row.updated_at,
});
