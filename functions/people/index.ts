import { worker } from "../../lib/http/worker.ts";
import orgs from "./orgs.ts";
import tokens from "./tokens.ts";
import users from "./users.ts";

export const routers = [users, tokens, orgs];
export default worker(...routers);
