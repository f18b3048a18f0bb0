import { type Asked, allow, type Credential, openDb } from "../../lib/auth/allow.ts";
import { invalid } from "../../lib/errors.ts";
import { inTurn, runs } from "../../lib/http/gate.ts";
import { gives, givesText } from "../../lib/http/gives.ts";
import { onceBegun } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import {
  type Json,
  parseScript,
  runScript,
  scriptLanguage,
  scriptLlmText,
  testScript,
  validateScript,
} from "../../lib/script/index.ts";
import {
  languageSpec,
  runScriptBody,
  runtimeEnvVars,
  scriptReport,
  scriptResult,
  testScriptBody,
  validateScriptBody,
  validation,
} from "../../lib/scripts/schema.ts";
import { eyesOf, identify, type Opens, worldOf } from "../../lib/scripts/world.ts";

const scripts = router();

/** The language for editors: from the table that the checker and the interpreter read, too. */
scripts.get(
  "/api/v1/scripts/language",
  named("Describe the script language"),
  allow("scripts:read"),
  gives(200, languageSpec),
  async (c) => {
    await c.var.db.enter();
    return c.var.answer(scriptLanguage());
  },
);

/** The language for models: a prompt. */
scripts.get(
  "/api/v1/scripts/llm.txt",
  named("Describe the script language to a model"),
  allow("scripts:read"),
  givesText(),
  async (c) => {
    await c.var.db.enter();
    return c.var.answer(scriptLlmText());
  },
);

/** The names that `env` has. None: there is no store of them yet. */
scripts.get(
  "/api/v1/scripts/runtime_env_vars",
  named("List the variables of scripts"),
  allow("scripts:read"),
  gives(200, runtimeEnvVars),
  async (c) => {
    await c.var.db.enter();
    return c.var.answer({ data: [] });
  },
);

scripts.post(
  "/api/v1/scripts/validate",
  named("Validate a script"),
  allow("scripts:read"),
  valid("json", validateScriptBody),
  gives(200, validation),
  async (c) => {
    await c.var.db.enter();
    return c.var.answer(validateScript(c.req.valid("json").script));
  },
);

/** 200 also for a script that fails: its error is the answer. The sender is let in before it may wait for its turn. */
scripts.post(
  "/api/v1/scripts/run",
  named("Run a script"),
  allow("scripts:write"),
  valid("json", runScriptBody),
  onceBegun(),
  gives(200, scriptResult, 409, 429),
  async (c) => {
    const { script, scope, ...as } = c.req.valid("json");
    await c.var.db.enter();
    const run = await inTurn(runs, c, async () => {
      const identity = await identify(c.var.credential, opens(c), as);
      await c.var.begin();
      return runScript(script, {
        input: (scope ?? {}) as Json,
        viewer: identity.viewer,
        world: worldOf(c.env, c.var.credential, eyesOf(c.var.credential, opens(c), identity)),
        scripts: async () => null,
      });
    });
    return c.var.answer({ result: run.result, output: run.output, error: run.error, findings: run.findings });
  },
);

/** 200 with `passed: false` for a script that crashes; 422 for one that does not parse. */
scripts.post(
  "/api/v1/scripts/test",
  named("Test a script"),
  allow("scripts:write"),
  valid("json", testScriptBody),
  gives(200, scriptReport, 429),
  async (c) => {
    const { script, scope, scripts = {} } = c.req.valid("json");
    await c.var.db.enter();
    const [fault] = parseScript(script).program ? [] : parseScript(script).findings;
    if (fault)
      throw invalid({ field: "script", message: `line ${fault.line}, column ${fault.column}: ${fault.message}` });
    const identity = await identify(c.var.credential, opens(c), {});
    const report = await inTurn(runs, c, () =>
      testScript(script, {
        input: (scope ?? {}) as Json,
        viewer: identity.viewer,
        world: worldOf(c.env, c.var.credential, eyesOf(c.var.credential, opens(c), identity)),
        scripts: async (key) => (Object.hasOwn(scripts, key) ? scripts[key]! : null),
      }),
    );
    return c.var.answer(report);
  },
);

/** The sender's database for each permission that its script turns out to need. */
const opens =
  (c: Asked & { var: { credential: Credential } }): Opens =>
  (permission) =>
    openDb(c, c.var.credential, permission);

export default scripts;
