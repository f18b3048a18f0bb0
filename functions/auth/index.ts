import { worker } from "../../lib/http/worker.ts";
import codes from "./codes.ts";
import links from "./links.ts";
import loginTokens from "./login-tokens.ts";
import methods from "./methods.ts";
import oauth from "./oauth.ts";
import passwords from "./passwords.ts";
import refresh from "./refresh.ts";

export const routers = [refresh, codes, links, passwords, loginTokens, methods, oauth];
export default worker(...routers);
