/** Which providers of computers there are here. */
import type { Bindings } from "../env.ts";
import { localComputers } from "./local.ts";
import { type Provider, Refused } from "./provider.ts";
import { sprites } from "./sprites.ts";

/** What a computer is made by that names none. */
export const defaultProvider = (env: Bindings): "local" | "sprites" => (env.COMPUTERS ? "local" : "sprites");

/** The provider of that name. Throws `Refused`, saying what is missing, where this deployment hasn't got it. */
export function providerOf(env: Bindings, name: string): Provider {
  if (name === "local" && env.COMPUTERS) return localComputers(env.COMPUTERS);
  if (name === "sprites" && env.SPRITES_TOKEN) return sprites(env.SPRITES_TOKEN);
  if (name === "sprites") throw new Refused("Nobody makes sprites here: SPRITES_TOKEN is not set.");
  if (name === "local") throw new Refused("Local computers are those of `npm start`: a deployed Worker has none.");
  throw new Refused("There is no such provider of computers here.");
}
