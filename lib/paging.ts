/**
 * Pages of lists (CONTRACT.md §2.6). Numbered pages carry totals; cursors are ids, sealed, so that a client can
 * neither read nor forge one. Newest first, always.
 */
import * as v from "valibot";
import { open, seal } from "./auth/secrets.ts";
import type { Tenant } from "./db/schema.ts";
import { badRequest } from "./errors.ts";

export const PAGE_SIZE = 25;
export const MAX_PAGE_SIZE = 100;
// Beyond this an offset is a scan, and no person pages there.
const MAX_PAGE = 1_000_000;

/** An integer in a query string, at least 1. */
export const positive = v.pipe(
  v.string(),
  v.regex(/^\d{1,9}$/, "must be a whole number"),
  v.transform(Number),
  v.minValue(1, "must be at least 1"),
);

/** `page` and `page_size` of a query string. Above the maximum is clamped, and the answer's `page_size` says so. */
export const pageQuery = {
  page: v.optional(v.pipe(positive, v.maxValue(MAX_PAGE, `must be at most ${MAX_PAGE}`)), "1"),
  page_size: v.optional(
    v.pipe(
      positive,
      v.transform((size) => Math.min(size, MAX_PAGE_SIZE)),
    ),
    String(PAGE_SIZE),
  ),
};

export type Page = { page: number; page_size: number };

/** The page envelope of a view. */
export const pageOf = <V extends v.GenericSchema>(view: V) =>
  v.strictObject({
    data: v.array(view),
    page: v.number(),
    page_size: v.number(),
    total_entries: v.number(),
    total_pages: v.number(),
    has_next: v.boolean(),
    has_prev: v.boolean(),
  });

/** The envelope around one page's rows; `total` counts the rows of all pages. */
export function paginate<Row, View>(
  { page, page_size }: Page,
  { rows, total }: { rows: Row[]; total: number },
  toView: (row: Row) => View,
) {
  const total_pages = Math.ceil(total / page_size);
  return {
    data: rows.map((row) => toView(row)),
    page,
    page_size,
    total_entries: total,
    total_pages,
    has_next: page < total_pages,
    has_prev: page > 1 && total_pages > 0,
  };
}

/** A text for `like` in which the client's own `%`, `_` and `\` are letters. */
export const containing = (text: string) => `%${text.replace(/[\\%_]/g, "\\$&")}%`;

/** Of lists over agents, which the contract doesn't page: the newest thousand, and a way on. */
export const MAX_LIST = 1000;
export const listQuery = {
  limit: v.optional(
    v.pipe(
      positive,
      v.transform((limit) => Math.min(limit, MAX_LIST)),
    ),
    String(MAX_LIST),
  ),
  after_cursor: v.optional(v.pipe(v.string(), v.maxLength(500))),
};

/** The envelope of such a list; `after_cursor` leads on to older rows. */
export const listOf = <V extends v.GenericSchema>(view: V) =>
  v.strictObject({ data: v.array(view), after_cursor: v.nullable(v.string()), has_more: v.boolean() });

/** Opens the cursor of such a list, which goes one way only. */
export const openListCursor = (
  roots: string,
  list: string,
  tenant: Tenant,
  { limit, after_cursor }: { limit: number; after_cursor?: string | undefined },
): Promise<CursorPage> => openCursor(roots, list, tenant, { limit, before_cursor: after_cursor });

/** The envelope around its rows, of which one more than `limit` was asked for. `keyOf`: what the list goes by. */
export async function paginateList<Row extends { id: string }, View>(
  { limit, seal }: CursorPage,
  found: Row[],
  toView: (row: Row) => View,
  keyOf: (row: Row) => string = ({ id }) => id,
) {
  const rows = found.slice(0, limit);
  const has_more = found.length > limit;
  return {
    data: rows.map((row) => toView(row)),
    after_cursor: has_more ? await seal(keyOf(rows.at(-1)!)) : null,
    has_more,
  };
}

/** Where a cursor list goes on: from an id towards older rows, or towards newer ones. */
export type CursorPage = {
  limit: number;
  direction: "older" | "newer";
  from: string | null;
  /** An id as a cursor of this list. */
  seal: (id: string) => Promise<string>;
};

const invalidCursor = () =>
  badRequest(
    "invalid_cursor",
    "This cursor does not open here. Take before_cursor or after_cursor of an answer as it is.",
  );

type CursorQuery = { limit: number; before_cursor?: string | undefined; after_cursor?: string | undefined };

/** Opens the cursors of a query. A cursor opens in the list and the tenant that it was made for, and nowhere else. */
export async function openCursor(roots: string, list: string, tenant: Tenant, query: CursorQuery): Promise<CursorPage> {
  const { limit, before_cursor, after_cursor } = query;
  if (before_cursor !== undefined && after_cursor !== undefined) {
    throw badRequest("invalid_cursor", "Send before_cursor or after_cursor, not both.");
  }
  const place = [list, tenant.app, tenant.sandbox, tenant.kind === "org" ? tenant.org : "*"].join(" ");
  const sealed = before_cursor ?? after_cursor;
  const from = sealed === undefined ? null : await open(roots, sealed, place);
  if (sealed !== undefined && from === null) throw invalidCursor();
  return {
    limit,
    direction: after_cursor === undefined ? "older" : "newer",
    from,
    seal: (id) => seal(roots, id, place),
  };
}

/**
 * The envelope around a cursor's rows, of which one more than `limit` was asked for. `before_cursor` leads to older
 * rows, `after_cursor` to newer ones; each is null at its end of the list. `has_more` is of the way that was gone.
 */
export async function paginateByCursor<Row extends { id: string }, View>(
  { limit, direction, from, seal }: CursorPage,
  found: Row[],
  toView: (row: Row) => View,
) {
  const has_more = found.length > limit;
  const rows = found.slice(0, limit);
  if (direction === "newer") rows.reverse();
  const hasOlder = direction === "newer" || has_more;
  const hasNewer = direction === "newer" ? has_more : from !== null;
  const cursor = async (id: string | null | undefined) => (id ? seal(id) : null);
  return {
    data: rows.map((row) => toView(row)),
    has_more,
    before_cursor: hasOlder ? await cursor(rows.at(-1)?.id ?? from) : null,
    after_cursor: hasNewer ? await cursor(rows[0]?.id ?? from) : null,
  };
}
