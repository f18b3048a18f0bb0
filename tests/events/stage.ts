/** What the tests of events ask again and again. */
import { type Answer, type Call, must } from "../harness/index.ts";

/** All events behind `after`, page by page, as whoever asks sees them. */
export async function pull(call: Call, { after, query = "" }: { after?: unknown; query?: string } = {}) {
  const events: any[] = [];
  for (let from = after; ; ) {
    const at = from === undefined ? "" : `&after=${from}`;
    const { data, next_after } = await must(call("GET", `/api/v1/events?limit=500${at}${query}`), 200);
    events.push(...data);
    if (!data.length) return { events, next: next_after };
    from = next_after;
  }
}
export const namesOf = (events: any[]) => events.map(({ event_name }) => event_name);

export const aSubscription = (call: Call, fields: object = {}): Promise<any> =>
  must(call("POST", "/api/v1/event_subscriptions", { name: "Orders", event_names: ["custom.order"], ...fields }), 201);
export const tell = (call: Call, n: unknown, fields: object = {}): Promise<any> =>
  must(call("POST", "/api/v1/events", { name: "custom.order", payload: { n }, ...fields }), 201);

export const at = ({ id }: { id: string }) => `/api/v1/event_subscriptions/${id}`;
export const claim = async (call: Call, subscription: { id: string }, body: object = {}): Promise<any> =>
  must(call("POST", `${at(subscription)}/claim`, body), 200);
export const acknowledge = (call: Call, { delivery_id, receipt_handle }: any): Promise<Answer> =>
  call("POST", `/api/v1/event_subscription_deliveries/${delivery_id}/acknowledge`, { receipt_handle });

/** Whether events are numbered at all, for whoever misses some. */
async function told(call: Call): Promise<string> {
  const { body } = await call("GET", "/api/v1/events?limit=500");
  const events = body.data?.map((event: any) => [event.sequence ?? event.cursor, event.event_name, event.created_at]);
  return `events: ${JSON.stringify(events ?? body)}`;
}

/** Waits until the queue holds so many, and gives them, oldest first. */
export async function queued(call: Call, subscription: { id: string }, count: number): Promise<any[]> {
  for (let tries = 0; ; tries++) {
    const { data } = await must(call("GET", `${at(subscription)}/queue?limit=100`), 200);
    if (data.length >= count) return data;
    if (tries === 200) throw new Error(`the queue holds ${data.length} instead of ${count}; ${await told(call)}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}
