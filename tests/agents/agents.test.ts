import { describe, expect, it } from "vitest";
import { anAgent, anApp } from "../harness/index.ts";

describe("POST /api/v1/agents", () => {
  it("answers the whole agent, unset fields as null", async () => {
    const { acme, as } = await anApp();
    const { status, body } = await as(acme)("POST", "/api/v1/agents", { name: "Ada" });
    expect(status).toBe(200);
    expect(body.id).toMatch(/^agi_/);
    expect(body).toMatchObject({ name: "Ada", org: acme, identity: null });
  });

  it("refuses a lookup_key that any org of the app already has", async () => {
    const { acme, globex, as } = await anApp();
    await anAgent(as(acme), { lookup_key: "support" });
    const { status, body } = await as(globex)("POST", "/api/v1/agents", { name: "Bob", lookup_key: "support" });
    expect([status, body.error.fields[0].field]).toEqual([409, "lookup_key"]);
  });
});
