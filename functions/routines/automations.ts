import { allow } from "../../lib/auth/allow.ts";
import { invokeAutomation } from "../../lib/automations/queries.ts";
import { automationRun, invokeAutomationBody, toAutomationRun } from "../../lib/automations/schema.ts";
import { wakeDispatcher } from "../../lib/events/remote.ts";
import { gives } from "../../lib/http/gives.ts";
import { KEY } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { keptByRuns, oneKey, routesOfRuns } from "../../lib/routine-runs/routes.ts";

const automations = router();

/** The automation by its config's id or lookup_key. */
automations.post(
  "/api/v1/automations/:automation/invoke",
  named("Invoke an automation"),
  allow("automations:write"),
  valid("json", invokeAutomationBody),
  keptByRuns("The same key makes one run, which is answered again, whatever came of it."),
  gives(200, automationRun, 409),
  async (c) => {
    const body = c.req.valid("json");
    const idempotency_key = oneKey(c.req.header(KEY), body.idempotency_key);
    const row = await invokeAutomation(c.var.db, c.req.param("automation"), { ...body, idempotency_key });
    c.executionCtx.waitUntil(wakeDispatcher(c.env, row));
    return c.var.answer(toAutomationRun(row));
  },
);

routesOfRuns(automations, {
  ...{ kind: "automation_run", of: "automation", scope: "automations", view: automationRun, to: toAutomationRun },
  at: "/api/v1/automation_runs/:automation_run",
  follow: "/api/v1/automation_runs/:automation_run/stream",
});

export default automations;
