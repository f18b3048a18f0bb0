/** Places where rows can live: an org of some app, in production or in a sandbox. */
import { importJWK, SignJWT } from "jose";
import { bearer, type Call, caller, developer, must, sql, system, unique } from "../harness/index.ts";
import { databaseOf, type SigningKey } from "../harness/own.ts";

/** An org of some app, in production or in a sandbox. All that lives in it bears its word, so that a leak shows. */
export type Place = {
  name: string;
  word: string;
  app: string;
  sandbox: string | null;
  org: string;
  at: string;
  /** The place's developer: the secret key of its partition. */
  key: string;
  asDeveloper: Call;
  owner: string;
  member: string;
  /** A Script of the org's own, for what can't name any other kind of config. */
  script: string;
  /** One row for each parameter of the document's addresses, by its key; they stay while the walk lasts. */
  rows: Record<string, string>;
  /** A statement as the owner of the place's database, for rows that no route makes. */
  sql: (statement: string, params: string[]) => Promise<unknown>;
};

export const post = (call: Call, path: string, body: object, status = 201) => must(call("POST", path, body), status);

/** A sandbox of the app, and a secret key of it. */
export async function aSandbox(asDeveloper: Call, fields: object = {}): Promise<{ id: string; key: string }> {
  const { id } = await post(asDeveloper, "/api/v1/sandboxes", {
    name: "A sandbox",
    slug: unique("box"),
    ...fields,
  });
  const { full_key } = await post(asDeveloper, `/api/v1/sandboxes/${id}/keys`, { type: "secret" }, 200);
  return { id, key: full_key };
}

/** A walk makes more of these than an org has otherwise. */
const QUOTAS = {
  ...{ computers: 100_000, inbound_webhooks: 100_000, webhook_endpoints: 100_000, org_domains: 100_000 },
  ...{ org_invitations: 100_000, scim_groups: 100_000, scim_tokens: 100_000 },
};

type Partition = { app: string; sandbox: string | null; key: string };

/** An org with an owner and a member, where the key's rows live. */
export async function aPlace(name: string, { app, sandbox, key }: Partition, base = system.base): Promise<Place> {
  const word = unique(name);
  const at = developer(app);
  const asDeveloper = caller(bearer(key), base);
  const { id: org } = await post(asDeveloper, `${at}/orgs`, { name: word, slug: word, domain: `${word}.example` });
  const aUser = async (role: string) =>
    (
      await post(asDeveloper, `${at}/users`, {
        name: `${word} ${role}`,
        email: `${word}-${role}@example.com`,
        org,
        role,
      })
    ).id as string;
  const owner = await aUser("owner");
  const member = await aUser("member");
  const { id: script } = await post(asDeveloper, "/api/v1/config", {
    ...{ kind: "Script", mime_type: "text/plain", raw_content: "1", org, system: true },
  });
  const ask = databaseOf(base)?.query ?? sql;
  const settings = "settings = jsonb_set(settings, '{quotas}', $2::jsonb)";
  await ask(`update data.apps set ${settings} where id = $1`, [app, JSON.stringify(QUOTAS)]);
  return {
    name,
    word,
    app,
    sandbox,
    org,
    at,
    key,
    asDeveloper,
    owner,
    member,
    script,
    rows: {},
    sql: ask,
  };
}

/** A token for a user of the place: the whole answer. */
export const aToken = (place: Place, user: string, fields: object = {}) =>
  post(place.asDeveloper, `${place.at}/users/${user}/tokens`, fields);

/** Claims under a real signing key. */
export const signed = async (key: SigningKey, claims: Record<string, unknown>): Promise<string> =>
  new SignJWT(claims)
    .setProtectedHeader({ alg: "ES256", typ: "at+jwt", kid: key.kid })
    .sign(await importJWK(key, "ES256"));

export const claimsOf = (token: string): Record<string, any> =>
  JSON.parse(Buffer.from(token.split(".")[1]!, "base64url").toString());
