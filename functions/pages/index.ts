import { worker } from "../../lib/http/worker.ts";
import invitations from "./invitations.ts";
import login from "./login.ts";
import oauth from "./oauth.ts";

export const routers = [login, invitations, oauth];
export default worker(...routers);
