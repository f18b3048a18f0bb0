import fc from "fast-check";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import type { Tenant } from "../../lib/db/schema.ts";
import { newId } from "../../lib/ids.ts";
import { type CursorPage, containing, openCursor, pageQuery, paginate, paginateByCursor } from "../../lib/paging.ts";

describe("a numbered page", () => {
  it.each([
    ["of an empty list", 1, 10, 0, { total_pages: 0, has_next: false, has_prev: false }],
    // There is nothing to lead back to.
    ["beyond an empty list", 2, 10, 0, { total_pages: 0, has_next: false, has_prev: false }],
    ["that holds everything", 1, 10, 10, { total_pages: 1, has_next: false, has_prev: false }],
    ["with one row left over", 1, 10, 11, { total_pages: 2, has_next: true, has_prev: false }],
    ["with that row", 2, 10, 11, { total_pages: 2, has_next: false, has_prev: true }],
    ["in the middle", 2, 10, 21, { total_pages: 3, has_next: true, has_prev: true }],
    ["beyond the end", 9, 10, 21, { total_pages: 3, has_next: false, has_prev: true }],
  ])("%s says what is around it", (_, page, page_size, total, around) => {
    const rows = [{ id: 1 }, { id: 2 }];
    expect(paginate({ page, page_size }, { rows, total }, ({ id }) => `${id}`)).toEqual({
      data: ["1", "2"],
      page,
      page_size,
      total_entries: total,
      ...around,
    });
  });

  it("is the first of 25 unless asked otherwise, and never over 100", () => {
    const read = (query: object) => v.parse(v.object(pageQuery), query);
    expect(read({})).toEqual({ page: 1, page_size: 25 });
    expect(read({ page: "2", page_size: "100" })).toEqual({ page: 2, page_size: 100 });
    expect(read({ page: "1000000", page_size: "101" })).toEqual({ page: 1_000_000, page_size: 100 });
    expect(() => read({ page: "1000001" })).toThrow();
  });
});

describe("a cursor list", () => {
  const roots = "r".repeat(32);
  const tenant: Tenant = { kind: "app", app: newId("app"), sandbox: "-" };
  type Row = { id: string };
  const named = (n: number) => ({ id: `id_${String(n).padStart(3, "0")}` });
  const newestFirst = (rows: Row[]) => rows.map(({ id }) => id).sort((a, b) => (a < b ? 1 : -1));

  /** The rows that the database would give for a page: one more than asked for, if there is one. */
  function found(rows: Row[], { limit, direction, from }: CursorPage): Row[] {
    const way = rows.filter(({ id }) => from === null || (direction === "older" ? id < from : id > from));
    const sorted = newestFirst(way).map((id) => ({ id }));
    return (direction === "older" ? sorted : sorted.reverse()).slice(0, limit + 1);
  }
  const open = (query: Parameters<typeof openCursor>[3], list = "a list", of: Tenant = tenant) =>
    openCursor(roots, list, of, query);
  async function read(rows: Row[], query: Parameters<typeof openCursor>[3]) {
    const page = await open(query);
    return paginateByCursor(page, found(rows, page), ({ id }) => id);
  }
  /** Where a cursor leads. */
  const opened = async (cursor: string | null, name: "before_cursor" | "after_cursor") =>
    cursor && (await open({ limit: 1, [name]: cursor })).from;

  it("holds everything once, newest first, on the way down and on the way back", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.nat(99), { maxLength: 12 }),
        fc.integer({ min: 1, max: 5 }),
        async (ns, limit) => {
          const rows = ns.map(named);
          const all = newestFirst(rows);
          let page = await read(rows, { limit });
          const down = [page];
          while (page.before_cursor) {
            page = await read(rows, { limit, before_cursor: page.before_cursor });
            down.push(page);
          }
          expect(down.flatMap(({ data }) => data)).toEqual(all);
          expect(down.map(({ has_more }) => has_more)).toEqual(down.map((_, i) => i < down.length - 1));
          expect([down[0]!.after_cursor, down.at(-1)!.before_cursor]).toEqual([null, null]);
          let back = [...page.data];
          while (page.after_cursor) {
            page = await read(rows, { limit, after_cursor: page.after_cursor });
            back = [...page.data, ...back];
          }
          expect(back).toEqual(all);
          expect(page.has_more).toBe(false);
        },
      ),
      { numRuns: 40 },
    );
  });

  it("leads on from an empty page, back the way it came", async () => {
    const rows = [named(5)];
    const [only] = rows;
    const sealed = async (id: string) => (await open({ limit: 1 })).seal(id);
    const older = await read(rows, { limit: 3, before_cursor: await sealed(only!.id) });
    expect(older).toEqual({ data: [], has_more: false, before_cursor: null, after_cursor: expect.any(String) });
    expect(await opened(older.after_cursor, "after_cursor")).toBe(only!.id);
    const newer = await read(rows, { limit: 3, after_cursor: await sealed(only!.id) });
    expect(newer).toEqual({ data: [], has_more: false, before_cursor: expect.any(String), after_cursor: null });
    expect(await opened(newer.before_cursor, "before_cursor")).toBe(only!.id);
  });

  it("that is empty leads nowhere", async () => {
    expect(await read([], { limit: 3 })).toEqual({
      data: [],
      has_more: false,
      before_cursor: null,
      after_cursor: null,
    });
  });

  it("names by its cursors the first and the last row that it shows, not the one that was asked for beside them", async () => {
    const rows = [1, 2, 3, 4, 5].map(named);
    const middle = { ...(await read(rows, { limit: 2 })) };
    expect(await opened(middle.before_cursor, "before_cursor")).toBe("id_004");
    const next = await read(rows, { limit: 2, before_cursor: middle.before_cursor! });
    expect(await opened(next.before_cursor, "before_cursor")).toBe("id_002");
    expect(await opened(next.after_cursor, "after_cursor")).toBe("id_003");
    const back = await read(rows, { limit: 1, after_cursor: next.after_cursor! });
    expect([back.data, back.has_more]).toEqual([["id_004"], true]);
    expect(await opened(back.after_cursor, "after_cursor")).toBe("id_004");
    expect(await opened(back.before_cursor, "before_cursor")).toBe("id_004");
  });

  it("refuses a cursor of another list, one that nobody sealed, and two at once", async () => {
    const { before_cursor } = await read([1, 2].map(named), { limit: 1 });
    const cursor = before_cursor!;
    const elsewhere: [string, Tenant][] = [
      ["another list", tenant],
      ["a list", { ...tenant, app: newId("app") }],
      ["a list", { ...tenant, sandbox: newId("sandbox") }],
      ["a list", { ...tenant, kind: "org", org: newId("org") }],
      ["a list", { ...tenant, kind: "org", org: "-" }],
    ];
    for (const [list, of] of elsewhere) {
      const opening = open({ limit: 1, before_cursor: cursor }, list, of);
      await expect(opening).rejects.toMatchObject({ status: 400, code: "invalid_cursor" });
    }
    for (const query of [
      { before_cursor: "nonsense" },
      { after_cursor: "" },
      { before_cursor: cursor, after_cursor: cursor },
    ]) {
      await expect(open({ limit: 1, ...query })).rejects.toMatchObject({ status: 400 });
    }
  });
});

it("a searched text is read letter by letter", () => {
  expect(containing("50%_\\")).toBe("%50\\%\\_\\\\%");
});
