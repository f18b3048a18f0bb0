/** What a sandbox would have mailed: kept, read by its developer, and never sent. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { codeIn, mailTo } from "../auth/mailbox.ts";
import { anApp, bearer, type Call, caller, must, sql, unique } from "../harness/index.ts";
import { newRoot, newSigningKey, type Own, ownSystem } from "../harness/own.ts";

/** A sandbox of an app, with a person in it, who asks by its publishable key. */
async function aSandbox({ base, newApp }: Partial<{ base: string; newApp: Own["newApp"] }> = {}) {
  const made = await anApp({ ...(base && { base }), ...(newApp && { newApp }) });
  const sandbox = await must(made.asDeveloper("POST", "/api/v1/sandboxes", { name: "S", slug: unique("s") }), 201);
  const keys = `/api/v1/sandboxes/${sandbox.id}/keys`;
  const { full_key } = await must(made.asDeveloper("POST", keys, { type: "secret" }), 200);
  const inside = caller(bearer(full_key), base);
  const slug = unique("in");
  const org = await must(inside("POST", `${made.at}/orgs`, { name: "In", slug, domain: `${slug}.example` }), 201);
  const email = `${unique("u")}@example.com`;
  const user = await must(inside("POST", `${made.at}/users`, { email, org: org.id, role: "owner" }), 201);
  const visitor = caller({ "x-archastro-api-key": sandbox.keys[0].key_value }, base);
  const mails = `${made.at}/sandboxes/${sandbox.id}/mails`;
  const list = async (call: Call = made.asDeveloper) => (await must(call("GET", mails), 200)).data;
  /** So many mails, as soon as there are as many: they are kept a little after the answer. */
  const listed = async (count: number) => {
    await expect.poll(async () => (await list()).length).toBe(count);
    return list();
  };
  const ask = () => must(visitor("POST", "/api/v1/auth/login/code", { email }), 204);
  return { ...made, id: sandbox.id as string, inside, visitor, org, email, user, mails, list, listed, ask };
}

const fill = (sandbox: string, count: number) =>
  sql(
    `insert into data.sandbox_mails (app_id, sandbox_id, org_id, id, "to", subject, text)
      select app_id, sandbox_id, '-', 'dsm_' || lpad(n::text, 22, '0'), 'a@example.com', n::text, 'x'
        from data.sandboxes, generate_series(1, $2::int) n where sandbox_id = $1`,
    [sandbox, count],
  );

describe("GET …/sandboxes/:sandbox/mails", () => {
  it("shows what the sandbox mailed, by which its people come in; the mailbox has nothing of it", async () => {
    const { ask, email, listed, visitor, user } = await aSandbox();
    await ask();
    const [mail] = await listed(1);
    expect(mail).toEqual({
      id: expect.stringMatching(/^dsm_/),
      to: email,
      subject: expect.stringMatching(/^\d{6} is your code for Test$/),
      text: expect.stringContaining("It works once, for ten minutes."),
      created_at: expect.any(String),
    });
    const code = codeIn({ ...mail, date: "" });
    const entered = await must(visitor("POST", "/api/v1/auth/code/verify", { email, code }), 200);
    expect(entered.user.id).toBe(user.id);
    expect(mailTo(email)).toEqual([]);
  });

  it("shows an org's invitations there, too", async () => {
    const { inside, at, org, listed } = await aSandbox();
    const to = `${unique("bob")}@example.com`;
    await must(inside("POST", `${at}/orgs/${org.id}/invitations`, { email: to, role: "member" }), 201);
    expect((await listed(1))[0].to).toBe(to);
    expect(mailTo(to)).toEqual([]);
  });

  it("shows the newest first, in pages", async () => {
    const { id, asDeveloper, mails } = await aSandbox();
    await fill(id, 3);
    const first = await must(asDeveloper("GET", `${mails}?limit=2`), 200);
    expect([first.data.map((mail: any) => mail.subject), first.has_more]).toEqual([["3", "2"], true]);
    const rest = await must(asDeveloper("GET", `${mails}?limit=2&after_cursor=${first.after_cursor}`), 200);
    expect([rest.data.map((mail: any) => mail.subject), rest.has_more]).toEqual([["1"], false]);
  });

  it("is the sandbox's own key's, too, and no other's: 404", async () => {
    const one = await aSandbox();
    const other = await aSandbox();
    await fill(one.id, 1);
    expect(await one.list(one.inside)).toHaveLength(1);
    for (const call of [other.inside, other.asDeveloper]) expect((await call("GET", one.mails)).status).toBe(404);
    const { id } = await must(one.asDeveloper("POST", "/api/v1/sandboxes", { name: "T", slug: unique("t") }), 201);
    const key = await must(one.asDeveloper("POST", `/api/v1/sandboxes/${id}/keys`, { type: "secret" }), 200);
    expect((await caller(bearer(key.full_key))("GET", one.mails)).status).toBe(404);
    expect((await one.asDeveloper("GET", one.mails.replace(one.id, "x"))).status).toBe(404);
  });
});

it("keeps the newest thousand of a sandbox", async () => {
  const { id, ask, email } = await aSandbox();
  await fill(id, 1000);
  await ask();
  const kept = () =>
    sql(
      `select count(*)::int as n, max("to") as newest, min(subject) as oldest from data.sandbox_mails where sandbox_id = $1`,
      [id],
    );
  await expect.poll(kept).toMatchObject([{ n: 1000, newest: email }]);
  expect(await sql("select from data.sandbox_mails where sandbox_id = $1 and subject = '1'", [id])).toEqual([]);
});

describe("where nobody carries mail", () => {
  let own: Own;
  let base: string;
  beforeAll(async () => {
    own = await ownSystem();
    base = await own.start([await newSigningKey("one")], [newRoot()]);
  });
  afterAll(() => own.close());

  it("a sandbox's people sign in all the same, and production's can't ask: 503", async () => {
    const { ask, listed, publishable_key, email } = await aSandbox({ base, newApp: own.newApp });
    await ask();
    expect((await listed(1))[0].to).toBe(email);
    const visitor = caller({ "x-archastro-api-key": publishable_key }, base);
    const { status, body } = await visitor("POST", "/api/v1/auth/login/code", { email });
    expect([status, body.error.code]).toEqual([503, "mail_not_configured"]);
  });
});
