import { defineConfig } from "vitest/config";

/**
 * `lib`: pure code, no server. `api`: everything through the front door, over one running system
 * (tests/harness/setup.ts) that all files share.
 */
export default defineConfig({
  test: {
    projects: [
      { test: { name: "lib", include: ["tests/lib/**/*.test.ts", "tests/imports.test.ts"], testTimeout: 20_000 } },
      {
        test: {
          name: "api",
          include: ["tests/**/*.test.ts"],
          exclude: ["tests/lib/**", "tests/imports.test.ts"],
          globalSetup: "tests/harness/setup.ts",
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
