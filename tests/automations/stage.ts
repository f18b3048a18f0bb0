/** What the tests of automations ask again and again. */
import { anApp, type Call, must, unique } from "../harness/index.ts";

/** A graph that answers what it was given, and what its script makes of that. */
export const aGraph = (source = "{ got: $ }") => ({
  ...{ kind: "WorkflowGraph", version: 1, name: "A graph", start_node: "start" },
  nodes: [
    { kind: "WorkflowTrigger", id: "start", on_success: "do" },
    { kind: "WorkflowScript", id: "do", script: "do" },
  ],
  data: [{ kind: "Script", id: "do", script: source }],
});

/** A fresh app whose owner saves configs of its org. `automation` saves one that runs a graph. */
export async function stage() {
  const app = await anApp();
  const call: Call = app.as(app.acme);
  const content = (said: object | string) =>
    typeof said === "string"
      ? { mime_type: "text/plain", raw_content: said }
      : { mime_type: "application/json", raw_content: JSON.stringify(said) };
  const config = (kind: string, said: object | string, fields: object = {}, by = call) =>
    must(
      by("POST", "/api/v1/config", { kind, system: true, lookup_key: unique("c"), ...content(said), ...fields }),
      201,
    );
  const graph = await config("WorkflowGraph", aGraph());
  const automation = (said: object = {}, fields: object = {}, by = call) =>
    config("Automation", { name: "An automation", config_ref: graph.id, ...said }, fields, by);
  const get = (id: string): Promise<any> => must(call("GET", `/api/v1/automation_runs/${id}`), 200);
  const invoke = (of: { id: string }, body: object = {}, by = call): Promise<any> =>
    must(by("POST", `/api/v1/automations/${of.id}/invoke`, body), 200);
  const becomes = async (id: string, ...statuses: string[]): Promise<any> => {
    for (let i = 0; i < 400; i++) {
      const run = await get(id);
      if (statuses.includes(run.status)) return run;
      await new Promise((done) => setTimeout(done, 50));
    }
    throw new Error(`${id} is ${JSON.stringify(await get(id))}, not ${statuses}`);
  };
  const run = async (of: { id: string }, body: object = {}, by = call) =>
    becomes((await invoke(of, body, by)).id, "completed", "failed", "cancelled");
  return { ...app, call, content, config, graph, automation, get, invoke, becomes, run };
}
