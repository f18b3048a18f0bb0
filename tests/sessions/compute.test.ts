/** Scripts of sessions compute where no object does. */
import { expect, it } from "vitest";
import { anAgent, anApp, must, together, unique } from "../harness/index.ts";

/** Some seconds of computing, in pieces of about a tenth of one that nothing breaks. */
const SPIN = `let xs = array.range(0, 200000)
let ys = array.range(0, 200000)
let one = [xs, xs, xs, xs, xs, xs, xs, xs]
let other = [ys, ys, ys, ys, ys, ys, ys, ys]
array.length(array.filter(array.range(0, 20), fn(i) { one == other }))`;

it("answers for one session while scripts of others spin, two of an org at once, in turn", async () => {
  const { acme, as } = await anApp();
  const call = as(acme);
  const agent = await anAgent(call, { model: "scripted/tools" });
  const config = { kind: "Script", lookup_key: unique("spin"), mime_type: "text/plain", raw_content: SPIN };
  const { id: script } = await must(call("POST", "/api/v1/config", config), 201);
  await must(
    call("POST", `/api/v1/agents/${agent.id}/agent_tools`, {
      ...{
        kind: "custom",
        status: "active",
        name: "spin",
        description: "Spins",
        handler_type: "script",
        config: script,
      },
      ...{ effect: "read", parameters: { type: "object", properties: {} } },
    }),
    200,
  );
  const start = (body: object) =>
    must(call("POST", "/api/v1/agent_sessions", { agent: agent.id, instructions: "Use spin.", ...body }), 201);
  const idle = await start({ start_idle: true });
  const spun = await together(3, () => start({ on_idle: "complete" }));
  const took: number[] = [];
  for (let over = 0; over < spun.length; ) {
    const begun = performance.now();
    expect((await call("GET", `/api/v1/agent_sessions/${idle.id}`)).body.status).toBe("waiting");
    took.push(performance.now() - begun);
    over = (await call("GET", "/api/v1/agent_sessions?status=completed")).body.data.length;
  }
  const calls = await together(3, async (i) => {
    const { data } = await must(call("GET", `/api/v1/agent_sessions/${spun[i]!.id}/tool_calls`), 200);
    expect(data).toMatchObject([{ name: "spin", outcome: "succeeded" }]);
    return { from: Date.parse(data[0].started_at), to: Date.parse(data[0].completed_at) };
  });
  const from = Math.min(...calls.map((one) => one.from));
  const [, second, third] = calls.map(({ to }) => to - from).sort((a, b) => a - b) as [number, number, number];
  expect(Math.max(...took)).toBeLessThan(third / 2);
  // All three at once would be done together.
  expect(third - second).toBeGreaterThan(second / 5);
});
