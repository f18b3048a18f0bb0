/**
 * Credentials that stand in an address or a mail, and name their tenant in clear, so that the database can be entered
 * without a look-up: `<prefix>_<app>_<sandbox>_<org>_<secret>`, the second and the third empty where it is of production, or
 * of no org. 256 bits, of which only the SHA-256 is kept. `whk`: an inbound webhook's.
 */
import { NONE, type None } from "../db/schema.ts";
import { base62, type Id } from "../ids.ts";
import { sha256 } from "./keys.ts";

type Place = { app: Id<"app">; sandbox: Id<"sandbox"> | None; org: Id<"org"> | None };

const ID = "[0-9A-Za-z]{22}";
const SECRET_LENGTH = 43;
const shape = new RegExp(`^([a-z]{2,5})_(${ID})_(${ID})?_(${ID})?_[0-9A-Za-z]{${SECRET_LENGTH}}$`);

/** A new token of the place, to be shown once, and its hash. */
export async function newPlaceToken(prefix: string, { app, sandbox, org }: Place) {
  const ids = [app, sandbox, org].map((id) => (id === NONE ? "" : id.slice(4)));
  const secret = base62(crypto.getRandomValues(new Uint8Array(32)), SECRET_LENGTH);
  const token = [prefix, ...ids, secret].join("_");
  return { token, hash: await sha256(token) };
}

/** What a token says. A malformed one is of a place that nobody is in, to be looked for there as any other is. */
export async function readPlaceToken(prefix: string, text: string): Promise<Place & { hash: Uint8Array<ArrayBuffer> }> {
  const [, sort, app, sandbox, org] = text.match(shape) ?? [];
  const known = sort === prefix;
  return {
    app: (known ? `dap_${app}` : NONE) as Id<"app">,
    sandbox: known && sandbox ? (`dsb_${sandbox}` as Id<"sandbox">) : NONE,
    org: known && org ? (`org_${org}` as Id<"org">) : NONE,
    hash: await sha256(text),
  };
}
