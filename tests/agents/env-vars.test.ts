import { describe, expect, it } from "vitest";
import { openFor, sealedTables, versionOf, versionsOf } from "../../lib/auth/vault.ts";
import { aSecret } from "../harness/canary.ts";
import { anAgent, anApp, bearer, caller, must, sql, system, together } from "../harness/index.ts";

const at = (agent: { id: string }) => `/api/v1/agents/${agent.id}/agent_env_vars`;
const one = (envVar: { id: string }) => `/api/v1/agent_env_vars/${envVar.id}`;

async function start() {
  const app = await anApp();
  const owner = app.as(app.acme);
  const agent = await anAgent(owner);
  const anEnvVar = (value: string, key = "TOKEN") => must(owner("POST", at(agent), { key, value }), 200);
  return { ...app, owner, agent, anEnvVar };
}

const bytesOf = (hex: string) => new Uint8Array(Buffer.from(hex, "hex"));

/** What a Worker that uses the env var would read of it. */
async function open(id: string): Promise<string> {
  const [row] = await sql(
    "select *, encode(sealed, 'hex') as sealed_hex, encode(tag, 'hex') as tag_hex from data.agent_env_vars where id = $1",
    [id],
  );
  const slot = { table: "agent_env_vars", app: row.app_id, sandbox: row.sandbox_id, id } as const;
  const place = sealedTables.agent_env_vars.map((column) => row[column]);
  const sealed = bytesOf(row.sealed_hex);
  expect(versionOf(sealed)).toBe((await versionsOf(system.secrets.ROOT_SECRETS))[0]);
  return openFor(system.secrets.ROOT_SECRETS, { slot, place, sealed, tag: bytesOf(row.tag_hex) });
}

describe("POST /api/v1/agents/{agent}/agent_env_vars", () => {
  it("keeps the value, which opens for this row, and answers all but it", async () => {
    const { agent, owner } = await start();
    const value = `\ufeff${aSecret()}\n ü 🙂`;
    const made = await must(owner("POST", at(agent), { key: "API_KEY", value, description: "of the test" }), 200);
    expect(made).toEqual({
      ...{ id: made.id, agent: agent.id, key: "API_KEY", masked_value: "**** ü 🙂" },
      ...{ description: "of the test", created_at: made.created_at, updated_at: made.created_at },
    });
    expect(made.id).toMatch(/^anv_[0-9A-Za-z]{22}$/);
    expect(await must(owner("GET", one(made)), 200)).toEqual(made);
    expect((await must(owner("GET", at(agent)), 200)).data).toEqual([made]);
    expect(await open(made.id)).toBe(value);
  });

  it.each([
    ["", "****"],
    ["abcd", "****"],
    ["🙂🙂🙂🙂", "****"],
    ["abcde", "****bcde"],
    ["a🙂🙂🙂🙂", "****🙂🙂🙂🙂"],
  ])("masks %j as %j", async (value, masked) => {
    const { anEnvVar } = await start();
    const made = await anEnvVar(value);
    expect(made.masked_value).toBe(masked);
    expect(await open(made.id)).toBe(value);
  });

  it("takes a key of letters, digits and _, at most 128, and a value of at most 64 KB", async () => {
    const { agent, owner, anEnvVar } = await start();
    for (const key of ["a".repeat(128), "_", "A1_b"]) expect((await anEnvVar("x", key)).key).toBe(key);
    for (const key of ["", "1A", "A-B", "A B", "ÄB", "A\n", "a".repeat(129)]) {
      const answer = await owner("POST", at(agent), { key, value: "x" });
      expect([key, answer.status, answer.body.error.fields[0].field]).toEqual([key, 422, "key"]);
    }
    const longest = "é".repeat(32_768);
    expect(await open((await anEnvVar(longest, "LONG")).id)).toBe(longest);
    const longer = await owner("POST", at(agent), { key: "LONGER", value: `${longest}x` });
    expect([longer.status, longer.body.error.fields[0].field]).toEqual([422, "value"]);
  });

  it("refuses a key that the agent has: 422; another agent may have it, and it differs by case", async () => {
    const { agent, owner, anEnvVar } = await start();
    await anEnvVar("x");
    const again = await owner("POST", at(agent), { key: "TOKEN", value: aSecret() });
    expect([again.status, again.body.error.fields[0].field]).toEqual([422, "key"]);
    await anEnvVar("x", "token");
    await must(owner("POST", at(await anAgent(owner)), { key: "TOKEN", value: "x" }), 200);
  });

  it("makes a hundred on an agent and no more: 422 limit_reached", async () => {
    const { agent, owner, anEnvVar } = await start();
    await anEnvVar("x");
    await sql(
      `insert into data.agent_env_vars (id, app_id, sandbox_id, org_id, agent_id, key, sealed, tag)
       select 'anv_' || lpad(n::text, 22, '0'), app_id, sandbox_id, org_id, agent_id, 'K' || n, sealed, tag
         from data.agent_env_vars, generate_series(1, 98) n where agent_id = $1`,
      [agent.id],
    );
    const answers = await together(3, (i) => owner("POST", at(agent), { key: `MORE_${i}`, value: "x" }));
    expect(answers.map(({ status, body }) => [status, body.error?.code]).sort()).toEqual([
      [200, undefined],
      ...[1, 2].map(() => [422, "limit_reached"]),
    ]);
  });

  it("is kept by a key as by a token, of an agent named by its lookup_key: what holds it to its place is the agent's", async () => {
    const { asDeveloper, acme } = await start();
    const agent = await anAgent(asDeveloper, { org: acme, lookup_key: "keeper" });
    const value = aSecret();
    const made = await must(asDeveloper("POST", at({ id: "keeper" }), { key: "TOKEN", value }), 200);
    expect(made.agent).toBe(agent.id);
    expect(await open(made.id)).toBe(value);
    const next = aSecret();
    await must(asDeveloper("PATCH", one(made), { value: next }), 200);
    expect(await open(made.id)).toBe(next);
  });

  it("under an Idempotency-Key keeps no hash of the value that could be guessed from", async () => {
    const { agent, owner } = await start();
    const body = { key: "PIN", value: "1234" };
    const key = { "Idempotency-Key": "pin-1" };
    const made = await must(owner("POST", at(agent), body, key), 200);
    const again = await owner("POST", at(agent), body, key);
    expect([again.body, again.headers.get("Idempotent-Replayed")]).toEqual([made, "true"]);
    expect((await owner("POST", at(agent), { ...body, value: "1235" }, key)).status).toBe(422);
    const [kept] = await sql("select encode(fingerprint, 'hex') as hex from data.idempotency_keys where row_id = $1", [
      made.id,
    ]);
    const asked = `POST ${at(agent)}\n${JSON.stringify(body)}`;
    const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(asked));
    expect(kept.hex).not.toBe(Buffer.from(hash).toString("hex"));
  });
});

describe("PATCH /api/v1/agent_env_vars/{env_var}", () => {
  it("changes value and description, and tells which, never what", async () => {
    const { owner, anEnvVar, agent } = await start();
    const made = await anEnvVar(aSecret());
    const value = `${aSecret()}-end`;
    const changed = await must(owner("PATCH", one(made), { value, description: "d" }), 200);
    expect(changed).toEqual({
      ...made,
      ...{ masked_value: "****-end", description: "d", updated_at: changed.updated_at },
    });
    expect(changed.updated_at > made.updated_at).toBe(true);
    expect(await open(made.id)).toBe(value);
    expect((await must(owner("PATCH", one(made), { description: null }), 200)).description).toBe(null);
    const { data } = await must(owner("GET", `/api/v1/activity_feed?agent[]=${agent.id}`), 200);
    expect(data.slice(0, 3).map(({ kind, title, metadata }: any) => [kind, title, metadata.fields])).toEqual([
      ["agent_env_var.updated", "Env var updated: TOKEN", ["description"]],
      ["agent_env_var.updated", "Env var updated: TOKEN", ["value", "description"]],
      ["agent_env_var.created", "Env var created: TOKEN", undefined],
    ]);
  });

  it("leaves the key as it is: 422", async () => {
    const { owner, anEnvVar } = await start();
    const answer = await owner("PATCH", one(await anEnvVar("x")), { key: "OTHER" });
    expect([answer.status, answer.body.error.fields[0].field]).toEqual([422, "key"]);
  });
});

describe("who may change the agent, and nobody else,", () => {
  it("sees its env vars: a reader is refused, and a role that may change none has no say", async () => {
    const { acme, owner, asDeveloper, aUser, aToken, as } = await start();
    const [reader, writer] = [await aUser(acme), await aUser(acme)];
    const grants = [
      { principal_type: "user", principal: reader.id, actions: ["read"] },
      { principal_type: "user", principal: writer.id, actions: ["write"] },
    ];
    const agent = await anAgent(owner, { acl: { grants } });
    const made = await must(owner("POST", at(agent), { key: "TOKEN", value: aSecret() }), 200);
    const call = async (user: { id: string }) => caller(bearer((await aToken(user.id)).access_token));
    const [asReader, asWriter] = [await call(reader), await call(writer)];
    expect((await must(asWriter("GET", at(agent)), 200)).data).toEqual([made]);
    expect(await must(asWriter("GET", one(made)), 200)).toEqual(made);
    for (const [method, path, body] of [
      ["GET", at(agent)],
      ["GET", one(made)],
      ["POST", at(agent), { key: "B", value: "x" }],
      ["PATCH", one(made), { value: "x" }],
      ["DELETE", one(made)],
    ] as const) {
      expect([method, path, (await asReader(method, path, body)).status]).toEqual([method, path, 403]);
      expect([method, (await as(acme, { role: "viewer" })(method, path, body)).status]).toEqual([method, 403]);
    }
    expect(await must(asDeveloper("GET", one(made)), 200)).toEqual(made);
  });
});

describe("a row that was moved in the database", () => {
  it("does not open, whatever it was moved by", async () => {
    const { owner, globex, as, anEnvVar } = await start();
    const [here, there] = [await anEnvVar(aSecret()), await anAgent(owner)];
    const foreign = await anAgent(as(globex));
    const value = await open(here.id);
    const move = (set: string, params: unknown[]) =>
      sql(`update data.agent_env_vars set ${set} where id = $1`, [here.id, ...params]);
    const [home] = await sql("select agent_id, org_id, key from data.agent_env_vars where id = $1", [here.id]);
    for (const [set, to, back] of [
      ["agent_id = $2", [there.id], [home.agent_id]],
      ["agent_id = $2, org_id = $3", [foreign.id, globex], [home.agent_id, home.org_id]],
      ["key = $2", ["OTHER"], [home.key]],
    ] as const) {
      await move(set, [...to]);
      await expect(open(here.id)).rejects.toThrow("does not open");
      await move(set, [...back]);
      expect(await open(here.id)).toBe(value);
    }
  });

  it("or whose secret was copied, does not open: to another row, agent, org, sandbox or app", async () => {
    const { owner, anEnvVar, asDeveloper } = await start();
    const other = await start();
    const box = await must(asDeveloper("POST", "/api/v1/sandboxes", { name: "Box", slug: "box" }), 201);
    const { full_key } = await must(asDeveloper("POST", `/api/v1/sandboxes/${box.id}/keys`, { type: "secret" }), 200);
    const inBox = caller(bearer(full_key));
    const secret = await anEnvVar(aSecret(), "A");
    const targets = [
      await anEnvVar("x", "B"),
      await must(owner("POST", at(await anAgent(owner)), { key: "A", value: "x" }), 200),
      await must(other.owner("POST", at(other.agent), { key: "A", value: "x" }), 200),
      await must(inBox("POST", at(await anAgent(inBox)), { key: "A", value: "x" }), 200),
    ];
    for (const target of targets) {
      expect(await open(target.id)).toBe("x");
      await sql(
        `update data.agent_env_vars t set sealed = s.sealed, tag = s.tag from data.agent_env_vars s
          where t.id = $1 and s.id = $2`,
        [target.id, secret.id],
      );
      await expect(open(target.id)).rejects.toThrow("does not open");
    }
    // Nor in its own place under the id of another, nor with another's tag.
    await sql("delete from data.agent_env_vars where id = $1", [targets[0]!.id]);
    await sql("update data.agent_env_vars set id = $1 where id = $2", [targets[0]!.id, secret.id]);
    await expect(open(targets[0]!.id)).rejects.toThrow("does not open");
  });

  it("or changed by a byte, does not open", async () => {
    const { anEnvVar } = await start();
    const { id } = await anEnvVar(aSecret());
    const value = await open(id);
    const [{ n }] = await sql("select octet_length(sealed) as n from data.agent_env_vars where id = $1", [id]);
    const flip = (column: string, i: number) =>
      sql(
        `update data.agent_env_vars set ${column} = set_byte(${column}, $2::int, get_byte(${column}, $2::int) # 1) where id = $1`,
        [id, i],
      );
    for (const [column, i] of [
      ["sealed", 8],
      ["sealed", 20],
      ["sealed", n - 1],
      ["tag", 0],
      ["tag", 31],
    ] as const) {
      await flip(column, i);
      await expect(open(id)).rejects.toThrow("does not open");
      await flip(column, i);
    }
    expect(await open(id)).toBe(value);
  });
});
