import { pbkdf2Sync } from "node:crypto";
import { expect, it } from "vitest";
import { hashesOf, ITERATIONS, newWorking } from "../../../lib/auth/passwords.ts";
import { hex, mac } from "../../../lib/auth/secrets.ts";

const ROOT = "a-root-secret-of-a-test-that-asks-nothing";
const OLD = "another-root-secret-of-a-test-of-that-sort";

it("is six chained calls that a deployed Worker lets through, and an HMAC over them by each root secret", async () => {
  expect(ITERATIONS).toBe(100_000);
  const working = newWorking();
  expect([working.rounds, working.salt.length]).toEqual([6, 16]);
  let bytes: Buffer | string = "correct horse battery";
  for (let round = 0; round < 6; round++) bytes = pbkdf2Sync(bytes, working.salt, ITERATIONS, 32, "sha256");
  const text = (bytes as Buffer).toString("hex");
  const expected = await Promise.all([ROOT, OLD].map(async (root) => hex(await mac(root, text, "password"))));
  const made = await hashesOf(`${ROOT},${OLD}`, "correct horse battery", working);
  expect(made.map(hex)).toEqual(expected);
});

it("is of a salt of its own", () => {
  expect(hex(newWorking().salt)).not.toBe(hex(newWorking().salt));
});

it("knows a password however its accents were typed", async () => {
  const working = { ...newWorking(), rounds: 1 };
  expect(await hashesOf(ROOT, "caf\u00e9 caf\u00e9", working)).toEqual(
    await hashesOf(ROOT, "cafe\u0301 cafe\u0301", working),
  );
});
