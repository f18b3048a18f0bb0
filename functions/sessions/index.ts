import { worker } from "../../lib/http/worker.ts";

export const routers = [];
export default worker(...routers);
