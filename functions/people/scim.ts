import { scimSettingsRoutes } from "../../lib/scim/routes.ts";

export default scimSettingsRoutes("/api/v1/orgs/:org", ["orgs:write", "orgs:write"]);
