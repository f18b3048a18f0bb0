/**
 * Refresh tokens: `rt_`, and under a MAC the tenant, the sign-in and its generation. The same generation always has the
 * same token, which is what lets an honest retry be answered again.
 */
import { NONE, type None } from "../db/schema.ts";
import { type Id, isId } from "../ids.ts";
import { makeSigned, readSigned } from "./signed.ts";

export type RefreshToken = {
  app: Id<"app">;
  sandbox: Id<"sandbox"> | None;
  org: Id<"org">;
  family: Id<"sign_in">;
  generation: number;
};

const KIND = { prefix: "rt", purpose: "refresh", label: "" } as const;

/** The refresh token of a family's generation. */
export const makeRefreshToken = (
  roots: string,
  { app, sandbox, org, family, generation }: RefreshToken,
): Promise<string> => makeSigned(roots, KIND, [app, sandbox, org, family, generation].join("."));

/** Reads a refresh token and checks its MAC, without a look-up. Null for every flaw alike. */
export async function parseRefreshToken(roots: string, token: string): Promise<RefreshToken | null> {
  const read = await readSigned(roots, KIND, token);
  if (read?.parts.length !== 5) return null;
  const [app, sandbox, org, family, generation] = read.parts as [string, string, string, string, string];
  if (!/^(0|[1-9]\d{0,8})$/.test(generation)) return null;
  if (!isId("app", app) || !isId("org", org) || !isId("sign_in", family)) return null;
  if (sandbox !== NONE && !isId("sandbox", sandbox)) return null;
  return { app, sandbox: sandbox as RefreshToken["sandbox"], org, family, generation: Number(generation) };
}
