/**
 * The nodes of a workflow graph: one table, from which the node types are listed, a graph is checked and run, and models
 * are told. What each asks of the world is in lib/workflows/program.ts.
 */
import * as v from "valibot";
import type { Effect } from "../db/schema.ts";
import { list, text } from "../http/valid.ts";
import type { Json } from "../script/index.ts";
import { ADDRESS, type AskKind, LITERAL } from "./program.ts";

type Schema = v.GenericSchema;
/** How editors show a field; `expression` is evaluated as a whole, `node` names the node that it leads to. */
type FieldType = "string" | "text" | "number" | "object" | "any" | "select" | "expression" | "node" | "script";
type Field<S extends Schema = Schema> = {
  label: string;
  type: FieldType;
  description: string;
  /** Required, unless it may be null; with the default that it has. */
  schema: S;
  /** `{{ }}` in its texts are evaluated. */
  allowExpression: boolean;
};
type Fields = Record<string, Field>;
type Said<F extends Fields> = { [K in keyof F]: v.InferOutput<F[K]["schema"]> };

/** What a node asks of the world; its `$` is the ask's scope. */
export type Asked = { kind: AskKind; template: Json; effect: Effect };
/** What a node gives to the next, and which that is, where it isn't `on_success`. */
export type Gone = { value: Json; to?: string | null } | { error: string };

export type NodeKind<F extends Fields = Fields> = {
  /** As a graph's nodes say it, and in short. */
  kind: string;
  id: string;
  label: string;
  category: "Flow" | "Data" | "Network" | "Events" | "Agents" | "People";
  description: string;
  docs: string;
  fields: F;
  /** JSON Schema of what it gives, where that is always alike. */
  gives?: Record<string, unknown>;
  /** A fault that no single field has. */
  fault?: (said: Said<F>) => string | null;
  /** Null: it asks nothing, and hands on what it was given. */
  ask: (said: Said<F>) => Asked | null;
  /** What comes of the answer; else the answer is what it gives. */
  go?: (said: Said<F>, given: Json, answer: Json) => Gone;
};

const MAX_CODE = 10_000;
const MAX_TEXT = 100_000;
/** A year. */
const MAX_SECONDS = 31_536_000;

/** No part of the keys that are made of it. */
export const nodeId = v.pipe(
  v.string(),
  v.regex(/^[^\s{}[\]#\0][^{}[\]#\0]{0,99}$/, "must be a name of at most 100 characters, without {}[]#"),
);
/** It can't hold an expression. */
export const name = v.pipe(v.string(), v.regex(/^[^\s{}\0][^{}\0]{0,254}$/, "must be a name, without braces"));
/** Graphs are JSON: a body or a configuration that was read. */
const json = v.unknown() as v.GenericSchema<unknown, Json>;
const map = v.record(v.string(), json);
const long = (most: number) => v.pipe(v.string(), v.nonEmpty(), v.maxLength(most));
const code = long(MAX_CODE);
const seconds = (least: number) =>
  v.union(
    [v.pipe(v.number(), v.minValue(least), v.maxValue(MAX_SECONDS)), code],
    `must be ${least} to ${MAX_SECONDS}, or an expression`,
  );
const anEffect = v.nullish(v.picklist(["read", "idempotent", "once"]), null);

const field = <S extends Schema>(
  type: FieldType,
  label: string,
  schema: S,
  description: string,
  allowExpression = false,
): Field<S> => ({ ...{ type, label, schema, description }, allowExpression: allowExpression || type === "expression" });
const node = <F extends Fields>(kind: string, id: string, one: Omit<NodeKind<F>, "kind" | "id">) =>
  ({ kind, id, ...one }) as unknown as NodeKind;

/** An expression, be it written with its braces or without. */
const whole = (expression: string) => (expression.includes("{{") ? expression : `{{ ${expression} }}`);
/** The whole of `$`. What it holds isn't part of a template. */
const INPUT = "{{ $ }}";
const handOn = (_: unknown, given: Json): Gone => ({ value: given });

/** Whether the script language takes a value for true. */
const isTrue = (value: Json) => Boolean(value) && !(Array.isArray(value) && value.length === 0);

const leads = (label: string, description: string) => field("node", label, v.nullish(nodeId, null), description);
const effectField = field(
  "select",
  "Effect",
  anEffect,
  "What making it twice does: read (nothing), idempotent (no more than once does), once (it must not be made twice).",
);

/** What every node has, beside its own fields. */
export const commonFields = {
  on_success: leads(
    "On success",
    "The node that comes next. Without one the path ends here, with what this node gives.",
  ),
  on_error: leads(
    "On error",
    'The node that comes next when this one fails, with `{"error", "node", "input"}` as its `$`. Without one the run fails.',
  ),
  inputs: field(
    "any",
    "Inputs",
    v.nullish(v.pipe(list(nodeId, 20), v.minLength(1)), null),
    "Ids of earlier nodes. `$` is then an object of what each gave, by its id; null where it hasn't run.",
  ),
} satisfies Fields;

export const nodeKinds: readonly NodeKind[] = [
  node("WorkflowTrigger", "trigger", {
    label: "Trigger",
    category: "Flow",
    description: "Where a run begins: it gives the payload.",
    docs: "An event is unwrapped: `$` is its payload, not the event around it. Any other input is given as it came.",
    fields: {},
    ask: () => null,
  }),
  node("WorkflowScript", "script", {
    label: "Script",
    category: "Data",
    description: "Runs a script over `$`; its result is what the node gives.",
    docs: "The script stands in the graph's `data`, or is a config of kind Script. Each call that it makes to the outside is written down, so that it is taken up after a crash where it was. Each has the effect of its method, as a request has, unless `effect` says that all of them are `read` or `idempotent`.",
    fields: {
      script: field(
        "script",
        "Script",
        name,
        "The `id` of an entry of `data`, else the lookup_key of a Script config.",
      ),
      effect: effectField,
    },
    ask: ({ script, effect }) => ({
      kind: "script",
      template: { script, input: INPUT, effect },
      effect: effect ?? "once",
    }),
  }),
  node("WorkflowCondition", "condition", {
    label: "Condition",
    category: "Flow",
    description: "Goes one way or the other. It hands `$` on.",
    docs: 'False are `false`, `null`, `0`, `""` and `[]`. A way that is absent ends the path.',
    fields: {
      condition: field("expression", "Condition", code, "An expression, such as `$.total > 100`."),
      on_true: leads("If true", "The node that comes next when it is true."),
      on_false: leads("If false", "The node that comes next when it is false."),
    },
    ask: ({ condition }) => ({ kind: "evaluate", template: whole(condition), effect: "read" }),
    go: ({ on_true, on_false }, given, answer) => ({ value: given, to: isTrue(answer) ? on_true : on_false }),
  }),
  node("WorkflowHttpRequest", "http_request", {
    label: "HTTP request",
    category: "Network",
    description: "Makes a request to a public address, and gives `{status, content_type, body}`.",
    docs: "A status of 400 or more is an error; 429 and 5xx are tried again, as is a connection that isn't made. In an address what stands in braces is percent-encoded and leads to no other host or path. GET and HEAD are `read`, PUT and DELETE `idempotent`, POST and PATCH `once`, unless `effect` says otherwise; all but `read` carry an `Idempotency-Key`.",
    fields: {
      method: field(
        "select",
        "Method",
        v.nullish(v.picklist(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]), "GET"),
        "The request's method.",
      ),
      url: field("string", "URL", long(8000), "Where it goes.", true),
      headers: field("object", "Headers", v.nullish(v.record(v.string(), text(4000)), null), "By their names.", true),
      query: field(
        "object",
        "Query",
        v.nullish(map, null),
        "Joined to the address, encoded; null is left out, a list comes once for each item.",
        true,
      ),
      body: field("any", "Body", v.nullish(v.unknown(), null), "A text as it is, anything else as JSON.", true),
      auth: field(
        "object",
        "Auth",
        v.nullish(
          v.strictObject({
            env_var: name,
            as: v.picklist(["bearer", "header", "query"]),
            name: v.nullish(name, null),
          }),
          null,
        ),
        "`{env_var, as: bearer}` or `{env_var, as: header | query, name}`: a secret, which is read when the request is sent and never written down.",
      ),
      timeout_seconds: field(
        "number",
        "Timeout",
        v.nullish(v.pipe(v.number(), v.minValue(1), v.maxValue(120)), 30),
        "Seconds until it is an error.",
      ),
      effect: effectField,
    },
    gives: {
      type: "object",
      properties: { status: { type: "integer" }, content_type: { type: ["string", "null"] }, body: {} },
      required: ["status", "content_type", "body"],
    },
    fault: ({ url, auth }) => {
      if (!auth) return null;
      if ((auth.as === "bearer") !== (auth.name === null)) {
        return "auth wants a name as header or query, and none as bearer";
      }
      const isSpeltOut = /^https?:\/\/[^/?#{}@\\]+([/?#]|$)/i.test(url);
      return isSpeltOut
        ? null
        : "a secret goes to a host that is spelt out: url must begin with one when there is auth";
    },
    ask: ({ url, body, effect, ...rest }) => ({
      kind: "http",
      template: { ...rest, body: body as Json, url: { [ADDRESS]: url } },
      effect: effect ?? effectOfMethod(rest.method),
    }),
  }),
  node("WorkflowEmitEvent", "emit_event", {
    label: "Emit event",
    category: "Events",
    description: "Publishes an event of your own. It hands `$` on.",
    docs: "Routines, queues and whoever reads `/api/v1/events` have it. It is published once, however often the run is taken up.",
    fields: {
      name: field(
        "string",
        "Name",
        v.pipe(
          v.string(),
          v.regex(/^custom(\.[a-z0-9_]{1,60}){1,4}$/, "must be custom. and a name, such as custom.order.late"),
        ),
        "`custom.` and a name of yours.",
      ),
      payload: field(
        "any",
        "Payload",
        v.nullish(json, INPUT),
        "What it says: an object. Anything else becomes `{value}`.",
        true,
      ),
    },
    ask: (template) => ({ kind: "emit", template, effect: "idempotent" }),
    go: handOn,
  }),
  node("WorkflowEmbedAgent", "embed_agent", {
    label: "Embed agent",
    category: "Agents",
    description: "Hands work to an agent, and gives what that comes to.",
    docs: "A session of that agent does it and gives its result, which without a `result_schema` is `{output}`, its answer. With `worker: external` it is a work item of that agent, for whoever claims it: what is submitted is what the node gives, and one that is given up, or whose lease has run out ten times, fails it. Only an agent that the run might change itself is given work, or its own. It waits however long that takes.",
    fields: {
      participant: field(
        "string",
        "Participant",
        long(255),
        "The name of a participant of the run, or an agent by its id or lookup_key.",
        true,
      ),
      instructions: field("text", "Instructions", long(MAX_TEXT), "What is to be done.", true),
      input: field("any", "Input", v.nullish(json, INPUT), "What it is done with.", true),
      result_schema: field("object", "Result schema", v.nullish(map, null), "JSON Schema that the result must meet."),
      worker: field("select", "Worker", v.nullish(v.picklist(["session", "external"]), "session"), "Who does it."),
    },
    // A schema says what it says: it is no template.
    ask: ({ result_schema, ...rest }) => ({
      kind: "work",
      template: { ...rest, result_schema: { [LITERAL]: result_schema } },
      effect: "idempotent",
    }),
  }),
  node("WorkflowWait", "wait", {
    label: "Wait",
    category: "Flow",
    description: "Waits for a time, an instant or an event: up to a year.",
    docs: "Exactly one of `seconds`, `until` and `event`. After a time `$` is handed on. Of an event the node gives the payload: of the first that happens from then on, that the filters fit, and that the run may read; or null, when none came in time.",
    fields: {
      seconds: field("number", "Seconds", v.nullish(seconds(0), null), "So long.", true),
      until: field("string", "Until", v.nullish(code, null), "An instant, ISO 8601.", true),
      event: field(
        "string",
        "Event",
        v.nullish(v.pipe(v.string(), v.regex(/^[a-z0-9_]{1,60}(\.[a-z0-9_]{1,60}){0,5}$/)), null),
        "An event's name.",
      ),
      filters: field(
        "object",
        "Filters",
        v.nullish(map, null),
        'What the event\'s payload must equal, by path: `{"order.id": "{{ $.id }}"}`.',
        true,
      ),
      timeout_seconds: field(
        "number",
        "Timeout",
        v.nullish(seconds(1), null),
        "So long for the event at most; a year without it.",
        true,
      ),
    },
    fault: ({ seconds, until, event, filters, timeout_seconds }) => {
      if ([seconds, until, event].filter((one) => one !== null).length !== 1) {
        return "wants exactly one of seconds, until and event";
      }
      const isOfEvent = filters !== null || timeout_seconds !== null;
      return event === null && isOfEvent ? "filters and timeout_seconds are for an event" : null;
    },
    ask: ({ seconds, until, ...event }) => ({
      kind: "wait",
      template: event.event !== null ? { ...event } : until !== null ? { until } : ({ seconds } as Json),
      effect: "idempotent",
    }),
    go: ({ event }, given, answer) => ({ value: event === null ? given : answer }),
  }),
  node("WorkflowLlmCall", "llm_call", {
    label: "Model call",
    category: "Agents",
    description: "Asks a model, and gives `{text}`.",
    docs: "The prompt is sent as it is evaluated; nothing of an earlier call is known to the model.",
    fields: {
      model: field("string", "Model", v.nullish(text(200), null), "By its name; without one, the default.", true),
      system: field(
        "text",
        "System",
        v.nullish(text(MAX_TEXT), null),
        "Instructions that stand before the prompt.",
        true,
      ),
      prompt: field("text", "Prompt", long(MAX_TEXT), "What it is asked.", true),
      max_tokens: field(
        "number",
        "Most tokens",
        v.nullish(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(100_000)), 4096),
        "Of the answer.",
      ),
    },
    gives: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
    ask: (template) => ({ kind: "llm", template, effect: "read" }),
  }),
  node("WorkflowForEach", "for_each", {
    label: "For each",
    category: "Flow",
    description: "Goes a path once for each item, and gives the list of what each came to.",
    docs: "The path begins at `body`, with the item as its `$`, and ends where a node leads nowhere. One that fails fails them all.",
    fields: {
      items: field("expression", "Items", code, "An expression that gives a list."),
      body: field("node", "Body", nodeId, "The first node of the path."),
      concurrency: field(
        "number",
        "Concurrency",
        v.nullish(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(10)), 1),
        "How many items are under way at once.",
      ),
    },
    ask: ({ items }) => ({ kind: "evaluate", template: whole(items), effect: "read" }),
  }),
  node("WorkflowApproval", "approval", {
    label: "Approval",
    category: "People",
    description: "Waits until a person approves; denied, the node fails. It hands `$` on.",
    docs: "What is looked at is the message and `$`: who decides names their hash. It waits however long that takes.",
    fields: { message: field("text", "Message", long(MAX_CODE), "What the person is asked.", true) },
    ask: ({ message }) => ({ kind: "approval", template: { message, input: INPUT }, effect: "idempotent" }),
    go: (_, given, answer) => {
      const { approved, note } = answer as { approved: boolean; note?: string | null };
      return approved ? { value: given } : { error: note ? `denied: ${note}` : "denied" };
    },
  }),
];

/** What making a request twice does, if nobody says. */
export const effectOfMethod = (method: string): Effect =>
  method === "GET" || method === "HEAD" ? "read" : method === "PUT" || method === "DELETE" ? "idempotent" : "once";

/** By either name. */
const byName = new Map(nodeKinds.flatMap((one) => [[one.kind, one] as const, [one.id, one] as const]));
export const nodeKindOf = (name: string): NodeKind | null => byName.get(name) ?? null;

/** A node's fields, its own before those that all have. */
export const fieldsOf = (kind: NodeKind): Fields => {
  const { on_success, ...others } = commonFields;
  // A condition leads on by its own two ways.
  return { ...kind.fields, ...(kind.id === "condition" ? others : { on_success, ...others }) };
};

/** The node type as `node_types` answers it. */
export const toNodeType = (one: NodeKind) => ({
  ...{ id: one.id, label: one.label, description: one.description, category: one.category, docs: one.docs },
  ...{ badge: null, color: null },
  fields: Object.entries(fieldsOf(one)).map(([key, { label, type, description, schema, allowExpression }]) => {
    const inner = schema as Schema & { default?: unknown; wrapped?: { options?: string[] }; options?: string[] };
    const options = inner.options ?? inner.wrapped?.options;
    return {
      ...{ key, label, type, description, allowExpression, required: schema.type !== "nullish" },
      defaultValue: inner.default ?? null,
      options: type === "select" && options ? options.map((value) => ({ value, label: value })) : null,
    };
  }),
});
