import { ssoRoutes } from "../../lib/sso/routes.ts";

export default ssoRoutes("/protected/api/v2/developer/apps/:app_id/orgs/:id", ["developer:read", "developer:write"]);
