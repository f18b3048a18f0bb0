import { worker } from "../../lib/http/worker.ts";
import codes from "./codes.ts";
import links from "./links.ts";
import methods from "./methods.ts";
import oauth from "./oauth.ts";
import oauthPages from "./oauth-pages.ts";
import pages from "./pages.ts";
import passwords from "./passwords.ts";
import refresh from "./refresh.ts";
import sso from "./sso.ts";

export const routers = [refresh, codes, links, passwords, methods, pages, oauth, oauthPages, sso];
export default worker(...routers);
