import { join } from "node:path";
import { build } from "esbuild";
import { exportJWK, generateKeyPair } from "jose";
import { expect, it } from "vitest";
import { ROOT, readGroups } from "../../../lib/local/groups.ts";
import { startRuntime } from "../../../lib/local/runtime.ts";

/** Whether a group's own code signs tokens. Other groups' routers are root's only for the document. */
async function signs(group: string, main: string): Promise<boolean> {
  const { outputFiles } = await build({
    entryPoints: [join(ROOT, main)],
    bundle: true,
    write: false,
    format: "esm",
    logLevel: "error",
    external: group === "root" ? ["../groups.ts"] : [],
  });
  return /\bfunction signToken\d*\(/.test(outputFiles[0]!.text);
}

it("gives the private signing keys to those Workers that sign, and to no other", { timeout: 60_000 }, async () => {
  const groups = readGroups();
  const { privateKey } = await generateKeyPair("ES256", { extractable: true });
  const { d, ...open } = { ...(await exportJWK(privateKey)), kid: "one" };
  const secrets = {
    ISSUERS: "http://agentry.test",
    DATABASE_URL: "postgresql://agentry_api:none@127.0.0.1:1/none",
    JWKS: JSON.stringify({ keys: [{ ...open, d }] }),
    PUBLIC_JWKS: JSON.stringify({ keys: [open] }),
    ROOT_SECRETS: "a-root-secret-of-a-test-that-asks-nothing",
  };
  const runtime = await startRuntime({ port: 0, secrets, groups: groups.map(([group]) => group) });
  try {
    const given = await Promise.all(
      groups.map(async ([group]) => {
        const bindings = await runtime.bindings(group);
        expect(JSON.parse(bindings.PUBLIC_JWKS as string).keys, group).toMatchObject([{ kid: "one" }]);
        const texts = Object.values(bindings).filter((binding) => typeof binding === "string");
        return { group, has: texts.some((text) => text.includes(d!)) };
      }),
    );
    const signing = await Promise.all(
      groups.map(async ([group, { main }]) => ({ group, has: await signs(group, main) })),
    );
    expect(given).toEqual(signing);
  } finally {
    await runtime.close();
  }
});
