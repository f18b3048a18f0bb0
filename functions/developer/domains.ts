import { domainRoutes } from "../../lib/domains/routes.ts";

export default domainRoutes("/protected/api/v2/developer/apps/:app_id/orgs/:org", [
  "developer:read",
  "developer:write",
]);
