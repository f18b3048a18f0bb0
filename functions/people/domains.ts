import { domainRoutes } from "../../lib/domains/routes.ts";

export default domainRoutes("/api/v1/orgs/:org", ["orgs:write", "orgs:write"]);
