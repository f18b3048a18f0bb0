import { invitationRoutes } from "../../lib/invitations/routes.ts";

export default invitationRoutes("/protected/api/v2/developer/apps/:app_id/orgs/:org", [
  "developer:read",
  "developer:write",
]);
