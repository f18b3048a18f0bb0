/**
 * The token in an inbound webhook's address: `whk_<app>_<sandbox>_<org>_<secret>`, the second and the third empty where it
 * is of production, or of no org. It names its tenant in clear, so that the database can be entered without a look-up, and
 * carries 256 bits. Only its SHA-256 is kept.
 */
import { NONE, type None } from "../db/schema.ts";
import { base62, type Id } from "../ids.ts";
import { sha256 } from "./keys.ts";

type HookPlace = { app: Id<"app">; sandbox: Id<"sandbox"> | None; org: Id<"org"> | None };

const ID = "[0-9A-Za-z]{22}";
const SECRET_LENGTH = 43;
const shape = new RegExp(`^whk_(${ID})_(${ID})?_(${ID})?_[0-9A-Za-z]{${SECRET_LENGTH}}$`);

/** A new token of the place, to be shown once, and its hash. */
export async function newHookToken({ app, sandbox, org }: HookPlace) {
  const ids = [app, sandbox, org].map((id) => (id === NONE ? "" : id.slice(4)));
  const secret = base62(crypto.getRandomValues(new Uint8Array(32)), SECRET_LENGTH);
  const token = ["whk", ...ids, secret].join("_");
  return { token, hash: await sha256(token) };
}

/** What a token says. A malformed one is of a place that nobody is in, to be looked for there as any other is. */
export async function readHookToken(text: string): Promise<HookPlace & { hash: Uint8Array<ArrayBuffer> }> {
  const [, app, sandbox, org] = text.match(shape) ?? [];
  return {
    app: (app ? `dap_${app}` : NONE) as Id<"app">,
    sandbox: sandbox ? (`dsb_${sandbox}` as Id<"sandbox">) : NONE,
    org: org ? (`org_${org}` as Id<"org">) : NONE,
    hash: await sha256(text),
  };
}
