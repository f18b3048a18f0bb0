/** What the database refuses, as the answer it stands for. */
import { NeonDbError } from "@neondatabase/serverless";
import { expect, it } from "vitest";
import { asRefusal } from "../../../lib/db/errors.ts";

const refused = (fields: Partial<NeonDbError>) =>
  asRefusal(Object.assign(new NeonDbError("no"), fields), "agents:read");

it.each([
  ["a statement that ran too long", "57014"],
  ["a lock that stayed taken", "55P03"],
  ["a door without the key it checks by", "AE503"],
])("answers %s with a 503 that says when to come again", (_, code) => {
  expect(refused({ code })).toMatchObject({ status: 503, headers: { "Retry-After": "1" } });
});

it("leaves as it is what no rule knows: a bug", () => {
  const error = Object.assign(new NeonDbError("no"), { code: "55000" });
  expect(asRefusal(error, "agents:read")).toBe(error);
});

it("answers a bound that only the database sees with the field, or with all of them", () => {
  const broken = (constraint: string) => refused({ code: "23514", table: "agents", constraint });
  expect(broken("agents_acl_check")).toMatchObject({
    status: 422,
    fields: [{ field: "acl", message: "is too large" }],
  });
  expect(broken("agents_size_check")).toMatchObject({
    status: 422,
    fields: [{ field: "", message: expect.stringContaining("64 KB") }],
  });
});
