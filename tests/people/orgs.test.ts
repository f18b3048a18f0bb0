import { describe, expect, it } from "vitest";
import { anApp, must } from "../harness/index.ts";

const ids = ({ data }: { data: { id: string }[] }) => data.map(({ id }) => id);

describe("GET /api/v1/orgs", () => {
  it("shows an org's user its own org, and of it what is public", async () => {
    const { acme, as } = await anApp();
    const { data, ...page } = await must(as(acme, { role: "viewer" })("GET", "/api/v1/orgs"), 200);
    expect(data).toEqual([{ id: acme, name: "Acme", domain: expect.stringMatching(/\.example$/), kind: "company" }]);
    expect(page).toEqual({
      page: 1,
      page_size: 25,
      total_entries: 1,
      total_pages: 1,
      has_next: false,
      has_prev: false,
    });
  });

  it("shows a developer every org of the app, newest first", async () => {
    const { acme, globex, asDeveloper } = await anApp();
    expect(ids(await must(asDeveloper("GET", "/api/v1/orgs"), 200))).toEqual([globex, acme]);
  });

  it("finds by a part of name, slug or domain, within what one may see", async () => {
    const { acme, globex, as, asDeveloper } = await anApp();
    expect(ids(await must(asDeveloper("GET", "/api/v1/orgs?search=GLOB"), 200))).toEqual([globex]);
    expect(ids(await must(as(acme)("GET", "/api/v1/orgs?search=acm"), 200))).toEqual([acme]);
    const { data, total_entries } = await must(as(acme)("GET", "/api/v1/orgs?search=globex"), 200);
    expect([data, total_entries]).toEqual([[], 0]);
  });
});
