/** What was mailed to an address by the system of the run: it comes a little after the answer. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { readEml } from "../../lib/local/mailbox.ts";
import { system } from "../harness/index.ts";

export type Mailed = ReturnType<typeof readEml>;

/** All mail to an address so far, oldest first. */
export const mailTo = (address: string): Mailed[] =>
  readdirSync(system.mailDir)
    .sort()
    .map((name) => readEml(readFileSync(join(system.mailDir, name), "utf8")))
    .filter(({ to }) => to === address);

/** The newest of so many mails to an address, as soon as there are as many. */
export async function nextMail(address: string, count = 1): Promise<Mailed> {
  await expect.poll(() => mailTo(address).length).toBeGreaterThanOrEqual(count);
  return mailTo(address).at(-1)!;
}

export const codeIn = ({ text }: Mailed): string => text.match(/^\d{6}$/m)?.[0] ?? "none";
export const linkIn = ({ text }: Mailed): URL => new URL(text.match(/^https?:\S+$/m)![0]);
