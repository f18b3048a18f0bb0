import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** The isolation walks take longest by far: they start first, and the other files fill what they leave. */
class WalksFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]) {
    const sorted = await super.sort(files);
    const isWalk = ({ moduleId }: TestSpecification) => /\/isolation(-rows|-types)?\.test\.ts$/.test(moduleId);
    return [...sorted.filter(isWalk), ...sorted.filter((file) => !isWalk(file))];
  }
}

/** Tests that ask no running system, though they stand outside tests/lib. */
const alone = ["tests/imports.test.ts", "tests/groups.test.ts", "tests/sso/corpus.test.ts"];

/** What asks the database most by far, and the embedded one answers one by one: with a PostgreSQL alone. */
const onServer = [
  "isolation-rows",
  "isolation-types",
  "agents/children",
  "columns",
  "model",
  "non-interference",
  "slices",
]
  .filter(() => !process.env.DATABASE_URL)
  .map((name) => `tests/${name}.test.ts`);

/**
 * `lib`: what asks no running system. `api`: everything through the front door, over one running system
 * (tests/harness/setup.ts) that all files share.
 */
export default defineConfig({
  test: {
    // A file on every core: the walks go side by side.
    maxWorkers: "100%",
    sequence: { sequencer: WalksFirst },
    projects: [
      { test: { name: "lib", include: ["tests/lib/**/*.test.ts", ...alone], testTimeout: 20_000 } },
      {
        test: {
          name: "api",
          include: ["tests/**/*.test.ts"],
          exclude: ["tests/lib/**", ...alone, ...onServer],
          globalSetup: "tests/harness/setup.ts",
          testTimeout: 30_000,
          // What is told to lists and feeds behind an object comes a little later, and beside a full load later than a second.
          expect: { poll: { timeout: 20_000 } },
          // To start a system takes seconds alone, and minutes beside a full load.
          hookTimeout: 180_000,
        },
      },
    ],
  },
});
