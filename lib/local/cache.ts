import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

/** Gone with `npm ci`. */
export const CACHE = resolve(import.meta.dirname, "../../node_modules/.cache/agentry");

/**
 * What takes seconds to make and is the same for the same inputs: made once a checkout, and kept until an input is
 * another one or `npm ci` clears it. Nothing secret: it lies open to all who may read the checkout.
 */
export async function cached(name: string, inputs: string[], make: () => Promise<Uint8Array>): Promise<Uint8Array> {
  const entry = `${name}-${createHash("sha256").update(JSON.stringify(inputs)).digest("hex")}`;
  const path = join(CACHE, entry);
  try {
    return readFileSync(path);
  } catch {}
  const made = await make();
  try {
    mkdirSync(CACHE, { recursive: true });
    // Whole or not at all: two may be at it.
    const draft = join(CACHE, `.${entry}.${process.pid}`);
    writeFileSync(draft, made);
    renameSync(draft, path);
    for (const old of readdirSync(CACHE)) {
      if (old.startsWith(`${name}-`) && old !== entry) rmSync(join(CACHE, old), { force: true });
    }
  } catch {
    // A checkout that may only be read goes without.
  }
  return made;
}
