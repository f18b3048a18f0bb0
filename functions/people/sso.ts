import { ssoRoutes } from "../../lib/sso/routes.ts";

export default ssoRoutes("/api/v1/orgs/:org_id", ["sso:read", "sso:write"]);
