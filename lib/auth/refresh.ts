/**
 * Refresh tokens: `rt_` and base64url of the tenant, the family and its generation under a MAC. Nothing secret is
 * stored: the same generation always has the same token, which is what lets an honest retry be answered again.
 */
import { base64url } from "jose";
import { NONE, type None } from "../db/schema.ts";
import { type Id, isId } from "../ids.ts";
import { mac, verifyMac } from "./secrets.ts";
import { isCanonical } from "./tokens.ts";

export type RefreshToken = {
  app: Id<"app">;
  sandbox: Id<"sandbox"> | None;
  org: Id<"org">;
  family: Id<"token_family">;
  generation: number;
};

const MAX_LENGTH = 512;

/** The refresh token of a family's generation. */
export async function makeRefreshToken(
  roots: string,
  { app, sandbox, org, family, generation }: RefreshToken,
): Promise<string> {
  const text = [app, sandbox, org, family, generation].join(".");
  return `rt_${base64url.encode(text)}.${base64url.encode(await mac(roots, text))}`;
}

/** Reads a refresh token and checks its MAC, without a look-up. Null for every flaw alike. */
export async function parseRefreshToken(roots: string, token: string): Promise<RefreshToken | null> {
  const [, body, tag] = (token.length <= MAX_LENGTH && token.match(/^rt_([\w-]+)\.([\w-]{43})$/)) || [];
  if (!body || !tag || !isCanonical(body) || !isCanonical(tag)) return null;
  const text = new TextDecoder().decode(base64url.decode(body));
  if (!(await verifyMac(roots, text, base64url.decode(tag) as Uint8Array<ArrayBuffer>))) return null;
  const parts = text.split(".") as [string, string, string, string, string];
  const [app, sandbox, org, family, generation] = parts;
  if (parts.length !== 5 || !/^(0|[1-9]\d{0,8})$/.test(generation)) return null;
  if (!isId("app", app) || !isId("org", org) || !isId("token_family", family)) return null;
  if (sandbox !== NONE && !isId("sandbox", sandbox)) return null;
  return { app, sandbox: sandbox as RefreshToken["sandbox"], org, family, generation: Number(generation) };
}
