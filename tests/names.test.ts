/** The name of what is around a row stands beside its id wherever the row is shown: a null there is true. */
import { expect, it } from "vitest";
import { anAgent, anApp, bearer, type Call, caller, must, unique } from "./harness/index.ts";

it("a user's app, sandbox and org, in every answer that shows the user", async () => {
  const { at, app, asDeveloper, as, acme, owners } = await anApp();
  const { slug } = await must(asDeveloper("GET", `${at}/orgs/${acme}`), 200);
  const names = { app, app_name: "Test", sandbox_name: null, org: acme, org_name: "Acme", org_slug: slug };
  const me = owners[acme];
  const owner = as(acme);
  const made = await must(asDeveloper("POST", `${at}/users`, { org: acme }, { "Idempotency-Key": "once" }), 201);
  for (const user of [
    made,
    await must(asDeveloper("POST", `${at}/users`, { org: acme }, { "Idempotency-Key": "once" }), 201),
    await must(asDeveloper("GET", `${at}/users/${me}`), 200),
    (await must(asDeveloper("GET", `${at}/users?org=${acme}`), 200)).data[0],
    await must(asDeveloper("PATCH", `${at}/users/${made.id}`, { name: "Eve" }), 200),
    await must(asDeveloper("PATCH", `${at}/users/${made.id}`, { name: "Eve" }), 200),
    await must(owner("GET", `/api/v1/users/${me}`), 200),
    await must(owner("GET", "/api/v1/users/me"), 200),
    await must(owner("PUT", `/api/v1/users/${me}/profile`, { alias: "ada" }), 200),
    (await must(owner("GET", "/api/v1/status/ping"), 200)).user,
  ]) {
    expect(user).toMatchObject(names);
  }
  const nobodys = await must(asDeveloper("POST", `${at}/users`, {}), 201);
  expect(nobodys).toMatchObject({ app_name: "Test", org: null, org_name: null, org_slug: null });
});

it("a user's sandbox", async () => {
  const { at, asDeveloper } = await anApp();
  const sandbox = await must(asDeveloper("POST", "/api/v1/sandboxes", { name: "Staging", slug: "staging" }), 201);
  const { full_key } = await must(asDeveloper("POST", `/api/v1/sandboxes/${sandbox.id}/keys`, { type: "secret" }), 200);
  const inside: Call = caller(bearer(full_key));
  const { id } = await must(inside("POST", `${at}/users`, {}), 201);
  for (const user of [
    await must(inside("GET", `${at}/users/${id}`), 200),
    (await must(inside("GET", `${at}/users`), 200)).data[0],
  ]) {
    expect(user).toMatchObject({ sandbox: sandbox.id, sandbox_name: "Staging" });
  }
});

it("an agent's org, to whoever sees the agent", async () => {
  const { acme, as, asDeveloper } = await anApp();
  const owner = as(acme);
  const { id } = await anAgent(owner);
  for (const call of [owner, asDeveloper]) {
    for (const agent of [
      await anAgent(asDeveloper, { org: acme }),
      await must(call("GET", `/api/v1/agents/${id}`), 200),
      (await must(call("GET", "/api/v1/agents"), 200)).data[0],
      await must(call("PATCH", `/api/v1/agents/${id}`, { name: unique("Eve") }), 200),
    ]) {
      expect(agent).toMatchObject({ org: acme, org_name: "Acme" });
    }
  }
  expect(await anAgent(asDeveloper)).toMatchObject({ org: null, org_name: null });
});

it("a sandbox's org", async () => {
  const { acme, asDeveloper } = await anApp();
  const made = await must(asDeveloper("POST", "/api/v1/sandboxes", { name: "S", slug: unique("s"), org: acme }), 201);
  for (const sandbox of [
    made,
    await must(asDeveloper("GET", `/api/v1/sandboxes/${made.id}`), 200),
    (await must(asDeveloper("GET", "/api/v1/sandboxes"), 200)).data[0],
  ]) {
    expect(sandbox).toMatchObject({ org: acme, org_name: "Acme" });
  }
});
