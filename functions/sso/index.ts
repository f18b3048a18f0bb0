import { worker } from "../../lib/http/worker.ts";
import sso from "./sso.ts";

export const routers = [sso];
export default worker(...routers);
