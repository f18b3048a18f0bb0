import { worker } from "../../lib/http/worker.ts";
import deliveries from "./webhook-deliveries.ts";
import endpoints from "./webhook-endpoints.ts";

export const routers = [endpoints, deliveries];
export default worker(...routers);
