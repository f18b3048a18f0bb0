import { describe, expect, it } from "vitest";
import { newId } from "../../lib/ids.ts";
import { anAgent, anApp, must, sql } from "../harness/index.ts";

const at = (agent: { id: string }) => `/api/v1/agents/${agent.id}/agent_working_memory`;

async function start() {
  const app = await anApp();
  const owner = app.as(app.acme);
  const agent = await anAgent(owner);
  /** As the agent would write it. */
  const remember = async (key: string, value = "v", expires_at: string | null = null): Promise<string> => {
    const id = newId("working_memory_entry");
    await sql(
      `insert into data.agent_working_memory (app_id, sandbox_id, org_id, agent_id, id, key, value, expires_at)
        select app_id, sandbox_id, org_id, id, $2, $3, $4, $5 from data.agents where id = $1`,
      [agent.id, id, key, value, expires_at],
    );
    return id;
  };
  const list = async (query = "") => must(owner("GET", `${at(agent)}${query}`), 200);
  return { ...app, owner, agent, remember, list };
}

describe("GET /api/v1/agents/{agent}/agent_working_memory", () => {
  it("pages what the agent remembers, newest first, and hides what has expired", async () => {
    const { agent, remember, list } = await start();
    const [one, other] = [await remember("city", "Graz"), await remember("food", "soup", "2999-01-01T00:00:00Z")];
    await remember("gone", "x", "2020-01-01T00:00:00Z");
    const page = await list();
    expect(page.data.map(({ id }: any) => id)).toEqual([other, one]);
    expect(page.total_entries).toBe(2);
    const [entry] = page.data;
    expect(entry).toEqual({
      ...{ id: other, agent: agent.id, key: "food", value: "soup", expires_at: "2999-01-01T00:00:00Z" },
      ...{ created_at: entry.created_at, updated_at: entry.updated_at },
    });
    expect(await list("?page=2&page_size=1")).toMatchObject({ data: [{ id: one }], page: 2, has_next: false });
  });

  it("searches keys without case, and letter by letter", async () => {
    const { remember, list } = await start();
    await remember("Favourite_City");
    await remember("favouriteXcity");
    expect((await list("?search=VOURITE_c")).data.map(({ key }: any) => key)).toEqual(["Favourite_City"]);
    expect((await list("?search=100%25")).total_entries).toBe(0);
  });
});

describe("PATCH and DELETE /api/v1/agents/{agent}/agent_working_memory/{entry}", () => {
  it("change value and end, of an expired entry, too; null is never", async () => {
    const { owner, agent, remember, list } = await start();
    const id = await remember("k", "v", "2020-01-01T00:00:00Z");
    const path = `${at(agent)}/${id}`;
    const changed = await must(owner("PATCH", path, { value: "w", expires_at: null }), 200);
    expect([changed.value, changed.expires_at]).toEqual(["w", null]);
    expect((await list()).data).toEqual([changed]);
    const ended = await must(owner("PATCH", path, { expires_at: "2020-06-01T12:00:00+02:00" }), 200);
    expect([ended.value, ended.expires_at]).toEqual(["w", "2020-06-01T10:00:00Z"]);
    expect((await list()).data).toEqual([]);
    await must(owner("DELETE", path), 204);
    expect((await owner("PATCH", path, {})).status).toBe(404);
  });

  it("take at most 65,536 characters, and times that there are; the key stays", async () => {
    const { owner, agent, remember } = await start();
    const path = `${at(agent)}/${await remember("k")}`;
    await must(owner("PATCH", path, { value: "é".repeat(65_536) }), 200);
    for (const body of [
      { value: "x".repeat(65_537) },
      { value: null },
      { expires_at: "soon" },
      { expires_at: "2026-02-31T00:00:00Z" },
      { expires_at: "0000-01-01T00:00:00Z" },
      { key: "other" },
    ]) {
      const answer = await owner("PATCH", path, body);
      expect([answer.status, answer.body.error.fields[0].field]).toEqual([422, Object.keys(body)[0]]);
    }
  });

  it("reach an entry through its own agent alone, by id or lookup_key", async () => {
    const { owner, agent, remember } = await start();
    const id = await remember("k");
    const other = await anAgent(owner);
    for (const method of ["PATCH", "DELETE"]) {
      expect((await owner(method, `${at(other)}/${id}`, method === "PATCH" ? {} : undefined)).status).toBe(404);
    }
    await must(owner("PATCH", `/api/v1/agents/${agent.id}`, { lookup_key: "rememberer" }), 200);
    await must(owner("DELETE", `${at({ id: "rememberer" })}/${id}`), 204);
  });
});
