import { worker } from "../../lib/http/worker.ts";
import developer from "./developer.ts";
import login from "./login.ts";
import oauth from "./oauth.ts";

export const routers = [login, oauth, developer];
export default worker(...routers);
