import { worker } from "../../lib/http/worker.ts";
import configs from "./configs.ts";
import scripts from "./scripts.ts";
import workflows from "./workflows.ts";

export const routers = [configs, scripts, workflows];
export default worker(...routers);
