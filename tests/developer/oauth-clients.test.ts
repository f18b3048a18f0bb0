import { describe, expect, it } from "vitest";
import { anApp, must } from "../harness/index.ts";

const body = { name: "Planner", redirect_uris: ["https://planner.example/cb"], scopes: ["agents:*"] };

describe("OAuth clients of an app", () => {
  it("are made with an id that names the app, and scopes spelt out", async () => {
    const { app, at, asDeveloper } = await anApp();
    const made = await must(asDeveloper("POST", `${at}/oauth_clients`, body), 201);
    expect(made).toMatchObject({ ...body, sandbox: null, scopes: ["agents:read", "agents:write"] });
    expect(made.client_id).toBe(`cli_${app.slice(4)}__${made.id.slice(4)}`);
    expect(await must(asDeveloper("GET", `${at}/oauth_clients/${made.id}`), 200)).toEqual(made);
    expect((await must(asDeveloper("GET", `${at}/oauth_clients`), 200)).data).toEqual([made]);
  });

  it("are changed field by field, and deleted", async () => {
    const { at, asDeveloper } = await anApp();
    const { id } = await must(asDeveloper("POST", `${at}/oauth_clients`, body), 201);
    const changed = await must(asDeveloper("PATCH", `${at}/oauth_clients/${id}`, { redirect_uris: [] }), 200);
    expect(changed).toMatchObject({ name: "Planner", redirect_uris: [], scopes: ["agents:read", "agents:write"] });
    await must(asDeveloper("DELETE", `${at}/oauth_clients/${id}`), 204);
    expect((await asDeveloper("GET", `${at}/oauth_clients/${id}`)).status).toBe(404);
    expect((await asDeveloper("DELETE", `${at}/oauth_clients/${id}`)).status).toBe(404);
  });

  it.each([
    ["no scopes", { scopes: [] }, "scopes"],
    ["a person's full access", { scopes: ["full_access"] }, "scopes.0"],
    ["a scope that there isn't", { scopes: ["nothing:read"] }, "scopes.0"],
    ["an address that isn't safe", { redirect_uris: ["http://planner.example/"] }, "redirect_uris.0"],
    ["no name", { name: "" }, "name"],
  ])("have no %s", async (_, fields, field) => {
    const { at, asDeveloper } = await anApp();
    const { status, body: said } = await asDeveloper("POST", `${at}/oauth_clients`, { ...body, ...fields });
    expect([status, said.error.fields[0].field]).toEqual([422, field]);
  });
});
