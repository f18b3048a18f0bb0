import { worker } from "../../lib/http/worker.ts";
import chat from "./chat.ts";

export const routers = [chat];
export default worker(...routers);
