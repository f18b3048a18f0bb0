import { worker } from "../../lib/http/worker.ts";
import hooks from "./hooks.ts";
import webhooks from "./inbound-webhooks.ts";

export const routers = [webhooks, hooks];
export default worker(...routers);
