import { worker } from "../../lib/http/worker.ts";
import refresh from "./refresh.ts";

export const routers = [refresh];
export default worker(...routers);
