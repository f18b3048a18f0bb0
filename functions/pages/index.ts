import { worker } from "../../lib/http/worker.ts";
import developer from "./developer.ts";
import invitations from "./invitations.ts";
import login from "./login.ts";
import oauth from "./oauth.ts";

export const routers = [login, invitations, oauth, developer];
export default worker(...routers);
