import { invitationRoutes } from "../../lib/invitations/routes.ts";

export default invitationRoutes("/api/v1/orgs/:org", ["invites:write", "invites:write"]);
