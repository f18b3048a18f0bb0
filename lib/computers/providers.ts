/** Which providers of computers there are here. */
import type { ComputerStatus } from "../db/schema.ts";
import type { Bindings } from "../env.ts";
import { localComputers } from "./local.ts";
import { type Provider, Refused } from "./provider.ts";
import type { CreateComputer } from "./schema.ts";
import { sprites } from "./sprites.ts";

/** What a deployment has of them. */
export type Providing = Pick<Bindings, "COMPUTERS" | "SPRITES_TOKEN">;

/** The provider of that name. Throws `Refused`, saying what is missing, where this deployment hasn't got it. */
export function providerOf(env: Providing, name: string): Provider {
  if (name === "local" && env.COMPUTERS) return localComputers(env.COMPUTERS);
  if (name === "sprites" && env.SPRITES_TOKEN) return sprites(env.SPRITES_TOKEN);
  if (name === "sprites") throw new Refused("Nobody makes sprites here: SPRITES_TOKEN is not set.");
  if (name === "local") throw new Refused("Local computers are those of `npm start`: a deployed Worker has none.");
  throw new Refused("There is no such provider of computers here.");
}

/**
 * What a row says of a computer that is to be made: by the provider that it names, or else by what there is here. In error
 * from the start, where nobody makes it.
 */
export function columnsOf(env: Providing, { name, lookup_key, region, metadata, config, ...body }: CreateComputer) {
  const provider = String(body.provider ?? config?.provider ?? (env.COMPUTERS ? "local" : "sprites"));
  const columns = { name, lookup_key: lookup_key ?? null, provider, region: region ?? "iad", metadata: metadata ?? {} };
  const missing = whyNone(env, provider);
  const status: ComputerStatus = missing === null ? "provisioning" : "error";
  return { ...columns, config: { ...config, provider }, status, error_message: missing };
}

/** Why nobody here makes computers of this provider; null, if somebody does. */
function whyNone(env: Providing, provider: string): string | null {
  try {
    providerOf(env, provider);
    return null;
  } catch (error) {
    if (error instanceof Refused) return error.message;
    throw error;
  }
}
