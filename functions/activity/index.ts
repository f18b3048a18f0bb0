import { worker } from "../../lib/http/worker.ts";
import activityFeed from "./activity-feed.ts";

export const routers = [activityFeed];
export default worker(...routers);
