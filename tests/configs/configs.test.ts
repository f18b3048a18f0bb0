import { describe, expect, it } from "vitest";
import { anApp, type Call, must } from "../harness/index.ts";

const yaml = (raw_content: string, fields: object = {}) => ({
  ...{ kind: "AgentTemplate", mime_type: "application/yaml", raw_content },
  ...fields,
});
const plain = (raw_content = "hello", fields: object = {}) => ({
  ...{ kind: "Config", mime_type: "text/plain", raw_content },
  ...fields,
});
const aConfig = (call: Call, body: object = plain()): Promise<any> => must(call("POST", "/api/v1/config", body), 201);
const at = ({ id }: { id: string }) => `/api/v1/config/${id}`;
describe("POST /api/v1/config", () => {
  it("answers the whole config with its first version, a person's own", async () => {
    const { acme, as, owners } = await anApp();
    const made = await aConfig(as(acme), yaml("name: Ada", { lookup_key: "ada", virtual_path: "agents/ada.yaml" }));
    expect(made).toEqual({
      ...{ id: made.id, kind: "AgentTemplate", org: acme, sandbox: null, team: null, user: owners[acme], agent: null },
      ...{ lookup_key: "ada", virtual_path: "agents/ada.yaml", parent: null, relative_path: null },
      ...{ parent_solution: null, mime_type: "application/yaml", raw_content: null, is_archived: false },
      current_version: {
        ...{ id: made.current_version.id, org: acme, sandbox: null, version_number: 1, data: null },
        content_hash: "sha256:88bab6d8f6dc68a877064d584cbb5b6c50e74f617ea50d81d3a53c2ee6ffbc4f",
        ...{ change_description: null, source_solution_config_version: null, created_at: made.created_at },
      },
      ...{ created_at: made.created_at, updated_at: made.created_at },
    });
    expect(made.id).toMatch(/^cfg_[0-9A-Za-z]{22}$/);
    expect(made.current_version.id).toMatch(/^cfv_[0-9A-Za-z]{22}$/);
    expect(await must(as(acme)("GET", at(made)), 200)).toEqual(made);
  });
});
