/** What an event's payload looks like, for whoever builds a graph that begins with it. */

const at = "2026-12-01T09:00:00.000Z";
const id = (prefix: string) => `${prefix}_02d700000000000000000A`;
const inbound = { webhook: id("whk"), headers: { "content-type": "application/json" }, body: { action: "opened" } };

const samples: Record<string, Record<string, unknown>> = {
  "agentroutine.invoked": { routine: id("arn"), agent: id("agi"), message: "Look at the new orders." },
  "schedule.cron": { routine: id("arn"), planned_at: at, timezone: "Etc/UTC" },
  "thread.created": { thread: id("thr") },
  "thread.deleted": { thread: id("thr") },
  "thread.member_joined": { thread: id("thr"), user: id("usr") },
  "thread.message_added": { thread: id("thr"), message: id("msg"), user: id("usr") },
  "thread.session.join": { thread: id("thr"), agent: id("agi") },
  "thread.session.leave": { thread: id("thr"), agent: id("agi") },
  "webhook.inbound": inbound,
  "webhook.github_app.pull_request": inbound,
  "workflow.scheduled": { automation: id("cfg"), planned_at: at },
};

/** A sample of the payload of an event; null: no event is called so. */
export const sampleOf = (name: string): Record<string, unknown> | null =>
  Object.hasOwn(samples, name) ? samples[name]! : null;
