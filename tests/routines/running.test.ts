/** Runs, through the front door: what each handler does, and what becomes of the run. */
import { describe, expect, it } from "vitest";
import { anAgent, anApp, type Call, must } from "../harness/index.ts";

const go = { message: "Go." };

/** An agent of a fresh app; `routine` makes one that can be invoked, `run` invokes it and waits for what becomes of it. */
async function stage(agentFields: object = {}) {
  const app = await anApp();
  const call: Call = app.as(app.acme);
  const agent = await anAgent(call, agentFields);
  const routine = (fields: object) =>
    must(
      call("POST", `/api/v1/agents/${agent.id}/agent_routines`, {
        ...{ name: "a routine", event_type: "agentroutine.invoked", status: "active", ...fields },
      }),
      200,
    );
  const get = (id: string) => must(call("GET", `/api/v1/agent_routines/runs/${id}`), 200);
  const becomes = async (id: string, ...statuses: string[]) => {
    for (let i = 0; i < 200; i++) {
      const run = await get(id);
      if (statuses.includes(run.status)) return run;
      await new Promise((done) => setTimeout(done, 50));
    }
    throw new Error(`${id} is ${JSON.stringify(await get(id))}, not ${statuses}`);
  };
  const invoke = (of: { id: string }, body: object = go) =>
    must(call("POST", `/api/v1/agent_routines/${of.id}/invoke`, body), 200);
  const run = async (fields: object, body: object = go) =>
    becomes((await invoke(await routine(fields), body)).id, "completed", "failed", "skipped", "cancelled");
  return { ...app, call, agent, routine, get, becomes, invoke, run };
}

describe("a run", () => {
  it("of a script has the payload as its $, and the script's result", async () => {
    const { run, agent } = await stage();
    const done = await run({ handler_type: "script", script: "{ said: $.message, n: 1 + 1 }" });
    expect(done).toMatchObject({
      ...{ agent: agent.id, status: "completed", result: { said: "Go.", n: 2 }, structured_response: null },
      worker: { status: "completed", attempt: 1, max_attempts: 3 },
    });
    expect(done.duration_ms).toBeGreaterThanOrEqual(0);
  });
});
