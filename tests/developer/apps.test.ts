import { describe, expect, it } from "vitest";
import { anApp, bearer, caller, developer, must } from "../harness/index.ts";

describe("GET /protected/api/v2/developer/apps", () => {
  it("lists the key's own app and no other", async () => {
    await anApp();
    const { app, asDeveloper } = await anApp();
    const { data } = await must(asDeveloper("GET", "/protected/api/v2/developer/apps"), 200);
    expect(data.map(({ id }: { id: string }) => id)).toEqual([app]);
  });
});

describe("GET /protected/api/v2/developer/apps/:app_id", () => {
  it("answers the app's name and settings, and when it was made", async () => {
    const { app, at, asDeveloper } = await anApp();
    const body = await must(asDeveloper("GET", at), 200);
    expect(body).toEqual({
      id: app,
      name: "Test",
      settings: {},
      created_at: expect.stringMatching(/Z$/),
      updated_at: expect.stringMatching(/Z$/),
    });
  });

  it("takes the key as x-archastro-api-key and as x-api-key too", async () => {
    const { app, at, secret_key } = await anApp();
    for (const name of ["x-archastro-api-key", "x-api-key"]) {
      const { id } = await must(caller({ [name]: secret_key })("GET", at), 200);
      expect(id).toBe(app);
    }
  });

  it("shows another app as it shows one that does not exist", async () => {
    const { asDeveloper } = await anApp();
    const other = await anApp();
    const foreign = await asDeveloper("GET", other.at, undefined, { "X-Request-Id": "the-same-request" });
    const absent = await asDeveloper("GET", developer("dap_0000000000000000000000"), undefined, {
      "X-Request-Id": "the-same-request",
    });
    expect([foreign.status, foreign.text]).toEqual([404, absent.text]);
  });

  it("tells a revoked key that it is one, and not whose app stands at the address", async () => {
    const { at, asDeveloper } = await anApp();
    const other = await anApp();
    const { id, full_key } = await must(asDeveloper("POST", `${at}/keys`, { type: "secret" }), 201);
    expect((await caller(bearer(full_key))("GET", other.at)).status).toBe(404);
    await must(asDeveloper("DELETE", `${at}/keys/${id}`), 200);
    expect((await caller(bearer(full_key))("GET", other.at)).status).toBe(401);
  });
});

describe("PATCH /protected/api/v2/developer/apps/:app_id", () => {
  it("renames the app and leaves its settings alone", async () => {
    const { at, asDeveloper } = await anApp();
    await must(asDeveloper("PATCH", at, { settings: { min_routine_interval_seconds: 600 } }), 200);
    const body = await must(asDeveloper("PATCH", at, { name: "Renamed" }), 200);
    expect(body).toMatchObject({ name: "Renamed", settings: { min_routine_interval_seconds: 600 } });
    expect(await must(asDeveloper("GET", at), 200)).toEqual(body);
  });

  it("merges the settings by their names, and takes out what is null", async () => {
    const { at, asDeveloper } = await anApp();
    const set = async (settings: object) => (await must(asDeveloper("PATCH", at, { settings }), 200)).settings;
    const both = { min_routine_interval_seconds: 60, activity_retention_days: 30 };
    expect(await set(both)).toEqual(both);
    expect(await set({ activity_retention_days: 3650 })).toEqual({ ...both, activity_retention_days: 3650 });
    expect(await set({ min_routine_interval_seconds: null })).toEqual({ activity_retention_days: 3650 });
  });

  it.each([
    ["theme", "dark"],
    ["min_routine_interval_seconds", 59],
    ["min_routine_interval_seconds", 86_401],
    ["min_routine_interval_seconds", 90.5],
    ["activity_retention_days", 0],
    ["activity_retention_days", 3651],
    ["activity_retention_days", "30"],
    ["retention_days", 30],
    ["retention_days.events", 0],
    ["retention_days.occurrences", 3651],
    ["retention_days.runs", null],
    ["retention_days.webhook_receipts", 6],
    ["retention_days.sessions", 30],
    ["quotas.inbound_webhooks", 0],
  ])("refuses the setting %s as %j, naming it", async (name, value) => {
    const { at, asDeveloper } = await anApp();
    const settings = name.split(".").reduceRight<unknown>((inner, part) => ({ [part]: inner }), value);
    const { status, body } = await asDeveloper("PATCH", at, { settings });
    expect([status, body.error.fields[0].field]).toEqual([422, `settings.${name}`]);
  });

  it("changes one app and no other", async () => {
    const { at, asDeveloper } = await anApp();
    const other = await anApp();
    await must(asDeveloper("PATCH", at, { name: "Renamed" }), 200);
    const { name } = await must(other.asDeveloper("GET", other.at), 200);
    expect(name).toBe("Test");
  });

  it("moves updated_at", async () => {
    const { at, asDeveloper } = await anApp();
    const before = await must(asDeveloper("GET", at), 200);
    const after = await must(asDeveloper("PATCH", at, { name: "Renamed" }), 200);
    expect(Date.parse(after.updated_at)).toBeGreaterThan(Date.parse(before.updated_at));
    expect(after.created_at).toBe(before.created_at);
  });

  it.each([
    ["an empty name", { name: "" }, "name"],
    ["a null name", { name: null }, "name"],
    ["a name over 200 characters", { name: "x".repeat(201) }, "name"],
    ["settings that are no map", { settings: [] }, "settings"],
    ["an id", { id: "dap_0000000000000000000000" }, "id"],
  ])("refuses %s", async (_, change, field) => {
    const { at, asDeveloper } = await anApp();
    const { status, body } = await asDeveloper("PATCH", at, change);
    expect([status, body.error.fields[0].field]).toEqual([422, field]);
  });

  it("refuses a sandbox's key: the app is not its own to change", async () => {
    const { at, asDeveloper } = await anApp();
    const { data } = await must(asDeveloper("GET", "/api/v1/sandboxes"), 200);
    const key = await must(asDeveloper("POST", `/api/v1/sandboxes/${data[0].id}/keys`, { type: "secret" }), 200);
    const inSandbox = caller(bearer(key.full_key));
    const { status, body } = await inSandbox("PATCH", at, { name: "Renamed" });
    expect([status, body.error.code]).toEqual([403, "sandbox_key"]);
    expect((await must(inSandbox("GET", at), 200)).name).toBe("Test");
  });
});
