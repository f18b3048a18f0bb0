import { worker } from "../../lib/http/worker.ts";
import subscriptions from "./event-subscriptions.ts";
import events from "./events.ts";

export const routers = [events, subscriptions];
export default worker(...routers);
