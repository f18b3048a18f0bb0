import { parseId } from "../../lib/ids.ts";
import { signInRoutes } from "../../lib/sign-ins/routes.ts";

export default signInRoutes(
  "/protected/api/v2/developer/apps/:app_id/users/:user_id/sessions",
  "session_id",
  ["developer:read", "developer:write"],
  (_, { user_id }) => parseId("user", user_id!),
);
