/** Every Durable Object's class, and no route: whoever reaches an object binds this Worker, so it needs none of them. */
import { worker } from "../../lib/http/worker.ts";

export { SessionObject } from "../../lib/sessions/object.ts";
export const routers = [];
export default worker(...routers);
