import { worker } from "../../lib/http/worker.ts";
import login from "./login.ts";
import oauth from "./oauth.ts";

export const routers = [login, oauth];
export default worker(...routers);
