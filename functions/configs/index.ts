import { worker } from "../../lib/http/worker.ts";
import configs from "./configs.ts";
import scripts from "./scripts.ts";

export const routers = [configs, scripts];
export default worker(...routers);
