import { entry, namespace } from "../entry.ts";
import type { Run } from "../run.ts";
import { toJson, type Value, type Waiting } from "../values.ts";

/** A function that somebody else answers: with the test's fake, the journal, or the world. */
function ask(run: Run, name: string, args: readonly Value[]): Waiting<Value> {
  const fake = run.tests?.mocks.get(name);
  if (fake) return run.calling(fake, [...args]);
  return run.outbound(
    name,
    args.map((arg) => toJson(arg, run)),
  );
}

/** Platform functions take one object of named arguments. */
const asks = (space: string, name: string, doc: string, example: string) =>
  entry({
    name,
    params: ["options?: object"],
    returns: "result<any>",
    doc,
    example,
    steps: (run, options) => ask(run, `${space}.${name}`, options ? [options] : []),
  });

export const agents = namespace("agents", "The agents of the organization.", [
  asks("agents", "get", "One agent, by id or lookup key.", 'unwrap(agents.get({ agent: "support" })).name'),
  asks("agents", "list", "A page of agents: `{data, …}`.", "unwrap(agents.list({ page_size: 50 })).data"),
]);

export const users = namespace("users", "The users of the organization.", [
  asks("users", "get", "One user, by id.", "unwrap(users.get({ user: $.user_id })).email"),
  asks("users", "list", "A page of users: `{data, …}`.", "unwrap(users.list({ page_size: 50 })).data"),
]);

export const threads = namespace("threads", "Threads and their messages.", [
  asks("threads", "get", "One thread, by id.", "unwrap(threads.get({ thread: $.thread_id })).key"),
  asks("threads", "list", "A page of threads: `{data, …}`.", "unwrap(threads.list()).data"),
  asks("threads", "current", "The thread the script was called from.", "unwrap(threads.current()).id"),
  asks(
    "threads",
    "ensure_by_key",
    "The thread with a key, made when there is none.",
    'unwrap(threads.ensure_by_key({ key: "alerts", title: "Alerts" })).id',
  ),
  asks(
    "threads",
    "send_message",
    "Adds a message to a thread.",
    'unwrap(threads.send_message({ thread: $.thread_id, content: "Hello" }))',
  ),
]);

export const storage = namespace("storage", "Small values that stay from one run to the next.", [
  entry({
    name: "get",
    params: ["key: string"],
    returns: "result<any>",
    doc: "The value under a key; an error when there is none.",
    example: 'unwrap(storage.get("last_report"), "")',
    steps: (run, key) => ask(run, "storage.get", [key]),
  }),
  entry({
    name: "set",
    params: ["key: string", "value: any", "options?: object"],
    returns: "result<any>",
    doc: "Keeps a value under a key; `remember_until` says how long.",
    example: 'unwrap(storage.set("last_report", "…", { remember_until: "3 days" }))',
    steps: (run, key, value, options) => ask(run, "storage.set", options ? [key, value, options] : [key, value]),
  }),
  entry({
    name: "delete",
    params: ["key: string"],
    returns: "result<any>",
    doc: "Forgets the value under a key.",
    example: 'unwrap(storage.delete("last_report"))',
    steps: (run, key) => ask(run, "storage.delete", [key]),
  }),
]);

export const email = namespace("email", "Mail. Where no provider is set up, an error result says so.", [
  asks(
    "email",
    "send",
    "Sends a mail: `{to, subject, text_body}`.",
    'email.send({ to: "ada@example.com", subject: "Hi", text_body: "…" })',
  ),
]);

export const slack = namespace("slack", "Slack. Where no provider is set up, an error result says so.", [
  asks("slack", "send", "Sends a message: `{channel, text}`.", 'slack.send({ channel: "#general", text: "Hi" })'),
  asks("slack", "post", "The same as `send`.", 'slack.post({ channel: "#general", text: "Hi" })'),
]);
