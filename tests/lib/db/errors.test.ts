import { NeonDbError } from "@neondatabase/serverless";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { asRefusal, lostRace } from "../../../lib/db/errors.ts";
import { ApiError, notFound } from "../../../lib/errors.ts";

/** What the driver throws: Postgres's words, and the fields of its error. Without a code it never got there. */
const thrown = (code: string | undefined, fields: { message?: string; table?: string; constraint?: string } = {}) =>
  Object.assign(new NeonDbError(fields.message ?? "words of the database"), { code, ...fields });

describe("what a round trip threw", () => {
  const log = vi.spyOn(console, "error");
  beforeEach(() => void log.mockImplementation(() => {}));
  afterEach(() => void log.mockReset());

  it.each([
    ["the database can't be reached", undefined],
    ["connection_exception", "08000"],
    ["connection_failure", "08006"],
    ["serialization_failure", "40001"],
    ["deadlock_detected", "40P01"],
    ["disk_full", "53100"],
    ["out_of_memory", "53200"],
    ["too_many_connections", "53300"],
    ["query_canceled", "57014"],
    ["lock_not_available", "55P03"],
    ["a door without the key that it checks by", "AE503"],
    ["admin_shutdown", "57P01"],
    ["cannot_connect_now", "57P03"],
  ])("passes: %s is a 503 that asks to come again, its words in the log alone", (_, code) => {
    const answered = asRefusal(thrown(code), "agents:read") as ApiError;
    expect(answered).toBeInstanceOf(ApiError);
    expect([answered.status, answered.code, answered.headers]).toEqual([503, "unavailable", { "Retry-After": "1" }]);
    expect(answered.message).not.toContain("words of the database");
    expect(log.mock.calls.flat().join()).toContain("words of the database");
  });

  it.each([
    ["unique_violation", "23505"],
    ["division_by_zero", "22012"],
    ["insufficient_privilege", "42501"],
    ["undefined_table", "42P01"],
    ["object_in_use", "55006"],
    // The digits of a class that passes, in another place.
    ["ambiguous_parameter", "42P08"],
    ["string_data_right_truncation", "22001"],
    ["read_only_sql_transaction", "25006"],
    ["io_error", "58030"],
    ["internal_error", "XX000"],
    ["raise_exception", "P0001"],
  ])("is a bug: %s stays what it is", (_, code) => {
    const error = thrown(code);
    expect(asRefusal(error, "agents:read")).toBe(error);
    expect(log).not.toHaveBeenCalled();
  });

  it.each([new TypeError("no database at all"), notFound("agent"), "a word"])("is left alone: %s", (error) => {
    expect(asRefusal(error, "agents:read")).toBe(error);
  });

  it("is a row that something else still uses: a 409 that says of what kind", () => {
    const message = 'update or delete on table "configs" violates foreign key constraint "agent_computers_config_fkey"';
    const fields = { message, table: "agent_computers", constraint: "agent_computers_config_fkey" };
    const { status, code, message: told } = asRefusal(thrown("23503", fields), "users:write") as ApiError;
    expect([status, code]).toEqual([409, "in_use"]);
    expect(told).toContain("by a computer");
  });

  it("is what a door raised", () => {
    const raised = (code: string, message: string) => {
      const { status, code: name, headers } = asRefusal(thrown(code, { message }), "agents:write") as ApiError;
      return [status, name, headers["WWW-Authenticate"]];
    };
    for (const reason of ["token_revoked", "user_gone", "key_unknown", "sandbox_expired", "org_suspended"]) {
      expect(raised("AE401", reason)).toEqual([
        401,
        "unauthenticated",
        'Bearer realm="agentry", error="invalid_token"',
      ]);
    }
    expect(raised("AE403", "org_suspended")).toEqual([403, "org_suspended", undefined]);
    expect(raised("AE403", "role")).toEqual([
      403,
      "insufficient_scope",
      'Bearer realm="agentry", error="insufficient_scope", scope="agents:write"',
    ]);
  });
});

describe("a lost race", () => {
  it.each(["23503", "40001", "40P01"])("is %s: run again, it sees what the other did", (code) => {
    expect(lostRace(thrown(code))).toBe(true);
  });
  it.each(["23505", "23514", "40002", "40003", "57014", "AE401", "", undefined])("is not %s", (code) => {
    expect(lostRace(thrown(code))).toBe(false);
  });
  it("is no error but the database's", () => {
    expect(lostRace(Object.assign(new Error("not the driver's"), { code: "40001" }))).toBe(false);
  });
});

describe("a broken constraint", () => {
  const refused = (code: string, table: string, constraint: string) => {
    const answered = asRefusal(thrown(code, { table, constraint }), "agents:write");
    if (!(answered instanceof ApiError)) return answered;
    return [answered.status, ...answered.fields.map(({ field, message }) => `${field} ${message}`)];
  };

  it.each([
    ["23505", "orgs", "slug_key", [409, "slug is already taken"]],
    ["23505", "agents", "lookup_key_key", [409, "lookup_key is already taken"]],
    // Its table is what the database says, wherever an s and a _ stand.
    ["23505", "orgs", "business_unit_key", [409, "business_unit is already taken"]],
    ["23505", "access_rules", "name_key", [409, "name is already taken"]],
    ["23514", "users", "metadata_check", [422, "metadata is too large"]],
    ["23514", "agents", "acl_check", [422, "acl is too large"]],
    ["23514", "agents", "size_check", [422, expect.stringContaining("at most 64 KB")]],
    ["23503", "agents", "user_fkey", [422, "user there is no such user"]],
    ["23503", "token_families", "user_fkey", [422, "user there is no such user"]],
    ["23503", "orgs", "tenant_fkey", [422, "org there is no such org"]],
  ])("%s of %s_%s names its field", (code, table, rest, refusal) => {
    expect(refused(code, table, `${table}_${rest}`)).toEqual(refusal);
  });

  it.each([
    ["23505", "idempotency_keys", "idempotency_keys_pkey"],
    ["23505", "orgs", ""],
    ["23505", "", ""],
    ["23505", "orgs", "agents_lookup_key_key"],
    ["23505", "users", "users_metadata_check"],
    ["23514", "orgs", "orgs_slug_key"],
    ["23503", "orgs", "orgs_slug_key"],
    ["23502", "orgs", "orgs_slug_key"],
    ["23P01", "orgs", "orgs_slug_key"],
    ["42501", "agents", "agents_user_fkey"],
  ])("%s of %s: %j is a bug, and stays what it is", (code, table, constraint) => {
    expect(refused(code, table, constraint)).toBeInstanceOf(NeonDbError);
  });
});

describe("a row above that isn't the viewer's", () => {
  const raised = (code: string, message: string) => {
    const { status, message: text } = asRefusal(thrown(code, { message }), "agents:write") as ApiError;
    return [status, text];
  };
  it("is absent, by the name of its kind", () => {
    expect(raised("AE404", "agent")).toEqual([404, notFound("agent").message]);
    expect(raised("AE404", "sign_in")).toEqual([404, "No such sign-in."]);
  });
  it("may be read and not changed, which says no permission's name", () => {
    const text = "You may read this agent, but the access list does not let you change it.";
    expect(raised("AE403", "read_only agent")).toEqual([403, text]);
  });
});
