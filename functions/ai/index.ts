import { worker } from "../../lib/http/worker.ts";
import chat from "./chat.ts";
import embedding from "./embedding.ts";
import evaluation from "./evaluation.ts";
import image from "./image.ts";

export const routers = [chat, image, embedding, evaluation];
export default worker(...routers);
