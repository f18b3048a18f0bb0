import { defineConfig } from "vitest/config";

/** Tests that ask no running system, though they stand outside tests/lib. */
const alone = ["tests/imports.test.ts", "tests/groups.test.ts"];

/**
 * `lib`: what asks no running system. `api`: everything through the front door, over one running system
 * (tests/harness/setup.ts) that all files share.
 */
export default defineConfig({
  test: {
    projects: [
      { test: { name: "lib", include: ["tests/lib/**/*.test.ts", ...alone], testTimeout: 20_000 } },
      {
        test: {
          name: "api",
          include: ["tests/**/*.test.ts"],
          exclude: ["tests/lib/**", ...alone],
          globalSetup: "tests/harness/setup.ts",
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
