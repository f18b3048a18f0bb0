import { deleteChild } from "../../lib/agents/children.ts";
import { allow } from "../../lib/auth/allow.ts";
import { createEnvVar, getEnvVar, listEnvVars, updateEnvVar } from "../../lib/env-vars/queries.ts";
import { createEnvVarBody, envVar, envVarList, toEnvVar, updateEnvVarBody } from "../../lib/env-vars/schema.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";

const envVars = router();
const idOf = (text: string) => parseId("agent_env_var", text);

envVars.get("/api/v1/agents/:agent/agent_env_vars", allow("env_vars:read"), gives(200, envVarList), async (c) => {
  const rows = await listEnvVars(c.var.db, c.req.param("agent"));
  return c.var.answer({ data: rows.map(toEnvVar) });
});

envVars.post(
  "/api/v1/agents/:agent/agent_env_vars",
  allow("env_vars:write"),
  valid("json", createEnvVarBody),
  once("agent_env_var"),
  gives(200, envVar),
  async (c) => {
    const { agent } = c.req.param();
    const row = await c.var.once<Parameters<typeof toEnvVar>[0]>(
      (db, id) => createEnvVar(db, c.env.ROOT_SECRETS, agent, id, c.req.valid("json")),
      getEnvVar,
    );
    return c.var.answer(toEnvVar(row));
  },
);

envVars.get("/api/v1/agent_env_vars/:env_var", allow("env_vars:read"), gives(200, envVar), async (c) => {
  return c.var.answer(toEnvVar(await getEnvVar(c.var.db, idOf(c.req.param("env_var")))));
});

envVars.patch(
  "/api/v1/agent_env_vars/:env_var",
  allow("env_vars:write"),
  valid("json", updateEnvVarBody),
  gives(200, envVar),
  async (c) => {
    const id = idOf(c.req.param("env_var"));
    const row = await updateEnvVar(c.var.db, c.env.ROOT_SECRETS, id, c.req.valid("json"));
    return c.var.answer(toEnvVar(row));
  },
);

envVars.delete("/api/v1/agent_env_vars/:env_var", allow("env_vars:write"), givesNothing(), async (c) => {
  await deleteChild(c.var.db, "agent_env_var", idOf(c.req.param("env_var")));
  return c.var.answer();
});

export default envVars;
