import { scimSettingsRoutes } from "../../lib/scim/routes.ts";

export default scimSettingsRoutes("/protected/api/v2/developer/apps/:app_id/orgs/:org", [
  "developer:read",
  "developer:write",
]);
