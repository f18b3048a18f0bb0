/** A system that may reach this machine, and receivers of webhooks here, which keep what they were sent. */
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Call, must } from "../harness/index.ts";

/** A request as it was received. `id` is its `webhook-id`. */
export type Received = { at: number; id: string; headers: IncomingHttpHeaders; raw: string; body: any };
type Answers = (response: ServerResponse, received: Received, nth: number) => void;

const ok: Answers = (response) => void response.writeHead(200).end("thanks");
/** Answers with a status, and maybe headers. */
export const says =
  (status: number, headers: Record<string, string> = {}, text = ""): Answers =>
  (response) =>
    void response.writeHead(status, headers).end(text);

/** A receiver on this machine: what it answers may be changed at any time. */
export async function aReceiver(answers: Answers = ok) {
  const received: Received[] = [];
  const state = { answers, open: 0, most: 0 };
  const server = createServer(async (request, response) => {
    state.most = Math.max(state.most, ++state.open);
    response.once("close", () => state.open--);
    const raw = await new Response(request as never).text();
    const id = String(request.headers["webhook-id"]);
    const one = { at: Date.now(), id, headers: request.headers, raw, body: JSON.parse(raw) };
    received.push(one);
    state.answers(response, one, received.length);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/hook`,
    received,
    /** What the test told in orders, in the order in which it came. */
    orders: () => received.flatMap(({ body }) => (body.type === "custom.order" ? [body.data.n] : [])),
    answer: (next: Answers) => {
      state.answers = next;
    },
    /** The most that it was asked at the same time. */
    most: () => state.most,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
export type Receiver = Awaited<ReturnType<typeof aReceiver>>;

export const at = ({ id }: { id: string }) => `/api/v1/webhook_endpoints/${id}`;
export const anEndpoint = (call: Call, { url }: { url: string }, fields: object = {}): Promise<any> =>
  must(call("POST", "/api/v1/webhook_endpoints", { url, event_names: ["custom.order"], ...fields }), 201);
export const deliveriesOf = async (call: Call, endpoint: { id: string }, query = ""): Promise<any[]> =>
  (await must(call("GET", `${at(endpoint)}/deliveries${query}`), 200)).data;
