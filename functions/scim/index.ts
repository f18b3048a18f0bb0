import { worker } from "../../lib/http/worker.ts";
import scim from "./scim.ts";

export const routers = [scim];
export default worker(...routers);
