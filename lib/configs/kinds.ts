import { MAX_NODES, readGraph } from "../workflows/read.ts";
import { readAutomation } from "./automation.ts";
import type { Fault } from "./json-schema.ts";

/**
 * The kinds of configs, as data: what each is for, the JSON Schema of its content and a sample of it. The public kinds
 * take fields that aren't named here, as their readers do, and are warned of them; ours take none.
 */
export type ConfigKind = {
  classification: "template" | "bundle" | "definition" | "file";
  description: string;
  /** Of the content as it is parsed, or, of a `document`, of its front matter. Without one, the content is bytes. */
  schema?: Record<string, unknown>;
  /** Text with YAML front matter between two lines of `---`, instead of YAML or JSON. */
  document?: true;
  /** Text of the script language. */
  script?: true;
  /** Says of content that the schema has found well what a schema can't. */
  read?: (value: unknown) => { findings: (Fault & { severity: "error" | "warning" })[] };
  sample?: string;
};

const text = { type: "string" };
const name = { type: "string", minLength: 1, maxLength: 200 };
const key = { type: "string", minLength: 1, maxLength: 255 };
const flag = { type: "boolean" };
const map = { type: "object" };
const texts = { type: "array", items: text };
const list = (items: object, maxItems = 100) => ({ type: "array", items, maxItems });
const orNull = ({ type, ...schema }: Record<string, unknown>) => ({ ...schema, type: [type, "null"] });
const object = (properties: Record<string, object>, ...required: string[]) => ({
  type: "object",
  properties,
  ...(required.length && { required }),
});
/** One of ours: what is not named is a mistake. */
const strict = (properties: Record<string, object>, ...required: string[]) => ({
  ...object(properties, ...required),
  additionalProperties: false,
});
/** A field that the public formats spell in two ways. One of the two, at least. */
const either = (one: string, other: string) => [{ required: [one] }, { required: [other] }];
const of = (kind: string) => ({ const: kind });

const toolTypes = { enum: ["builtin", "custom", "mcp"] };
const handlerTypes = { enum: ["http", "script", "builtin", "workflow_graph"] };
const routineHandlers = { enum: ["workflow_graph", "script", "preset", "chain"] };
const parameters = orNull(map);

const setupAction = {
  ...object(
    {
      action_type: { enum: ["env_var", "install", "integration", "custom"] },
      kind: { enum: ["env_var", "install", "integration", "custom"] },
      title: name,
      description: orNull(text),
      params: orNull(map),
      verify_config: orNull(map),
      dedupe_key: orNull(key),
      required: flag,
      sort_order: { type: "integer" },
      depends_on: texts,
    },
    "title",
  ),
  anyOf: either("action_type", "kind"),
};
const setup_actions = list(setupAction);

const tool = {
  template_path: text,
  tool_type: toolTypes,
  kind: toolTypes,
  builtin_tool_key: orNull(key),
  builtin_tool_config: orNull(map),
  lookup_key: orNull(key),
  name: orNull(name),
  name_prefix: orNull({ type: "string", pattern: "^[a-z][a-z0-9_]*$", maxLength: 24 }),
  description: orNull(text),
  parameters,
  handler_type: handlerTypes,
  config_ref: orNull(key),
  status: { enum: ["active", "draft", "disabled"] },
  instruction: orNull(text),
  async: flag,
  metadata: orNull(map),
};
const skill = {
  config_ref: key,
  status: { enum: ["active", "inactive"] },
  instruction: orNull(text),
  metadata: orNull(map),
};
const routine = {
  template_path: text,
  lookup_key: orNull(key),
  name: orNull(name),
  description: orNull(text),
  handler_type: routineHandlers,
  config_ref: orNull(key),
  script: orNull(text),
  steps: list(map),
  preset_name: orNull(key),
  preset_instructions: orNull({ type: "string", maxLength: 10_000 }),
  preset_config: orNull(map),
  event_type: orNull(key),
  event_config: orNull(map),
  schedule: orNull(text),
  status: { enum: ["draft", "active", "paused"] },
  structured_message_template_refs: texts,
  metadata: orNull(map),
};
/** Of what form each is, readAutomation says. */
const automation = {
  trigger: orNull(text),
  automation_type: orNull(text),
  status: orNull(text),
  event_type: orNull(key),
  event_config: orNull(map),
  schedule: orNull(text),
  config_ref: orNull(key),
  run_as_user: orNull(key),
  run_as_agent: orNull(key),
  input_schema: orNull(map),
  participants: { type: ["array", "null"] },
  prefills: orNull(map),
  invoke_auth: { type: ["array", "null"] },
};
const installation = {
  ...object({ install_type: key, kind: key, config: orNull(map) }),
  anyOf: either("install_type", "kind"),
};
const computer = {
  name,
  lookup_key: orNull(key),
  provider: { enum: ["local", "sprites"] },
  region: orNull(text),
  config: orNull(map),
  metadata: orNull(map),
};
const about = { id: orNull(key), lookup_key: orNull(key), name: orNull(name), description: orNull(text) };

/** How a secret reaches a request: the variable that holds it, as bearer token or under a name. */
const auth = {
  ...strict(
    {
      env_var: { type: "string", pattern: "^[A-Za-z_][A-Za-z0-9_]*$", maxLength: 128 },
      as: { enum: ["bearer", "header", "query"] },
      name: { type: "string", minLength: 1, maxLength: 200 },
    },
    "env_var",
    "as",
  ),
  if: { properties: { as: of("bearer") } },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: { not: { required: ["name"] } },
  else: { required: ["name"] },
};
const hosts = { type: "array", items: { type: "string", minLength: 1, maxLength: 253 }, minItems: 1, maxItems: 50 };
const url = { type: "string", minLength: 8, maxLength: 4000, pattern: "^https?://" };
const headers = { type: "object", additionalProperties: { type: "string", maxLength: 4000 }, maxProperties: 50 };

export const configKinds: Record<string, ConfigKind> = {
  // A client says the name: `constructor` is no kind.
  __proto__: null as never,
  AgentComputerTemplate: {
    classification: "template",
    description: "A computer as agents are given it.",
    schema: object({ kind: of("AgentComputerTemplate"), ...computer, setup_actions }, "name"),
    sample: `kind: AgentComputerTemplate
lookup_key: build-box
name: build box
region: iad
config:
  provider: sprites
`,
  },
  AgentMessageSchema: {
    classification: "definition",
    description: "The form of a structured message, and what guards its fields.",
    schema: object(
      {
        kind: of("AgentMessageSchema"),
        ...about,
        schema: map,
        field_guards: list(
          object(
            {
              kind: { enum: ["RegexMatch", "ContainsAny", "ContainsString", "LLMJudge"] },
              fields: texts,
              pattern: orNull(text),
              values: texts,
              case_sensitive: flag,
              model: orNull(text),
              prompt: orNull(text),
              on_match: orNull(text),
              message: orNull(text),
            },
            "kind",
            "fields",
          ),
        ),
      },
      "schema",
    ),
    sample: `kind: AgentMessageSchema
id: ticket-summary
name: Ticket summary
schema:
  type: object
  properties:
    title: { type: string, maxLength: 120 }
    urgent: { type: boolean }
  required: [title]
field_guards:
  - kind: ContainsAny
    fields: ["*"]
    values: [password, secret]
    message: The summary repeats a secret.
`,
  },
  AgentRoutineTemplate: {
    classification: "template",
    description: "A routine as agents are given it: when it runs, and what it does then.",
    schema: object(
      { kind: of("AgentRoutineTemplate"), ...routine, display_name: name, setup_actions },
      "name",
      "display_name",
    ),
    sample: `kind: AgentRoutineTemplate
lookup_key: morning-digest
name: morning-digest
display_name: Morning digest
description: Sums up what came in over night.
handler_type: preset
preset_name: do_task
preset_instructions: Sum up yesterday's tickets in five lines.
event_type: schedule.cron
schedule: "0 7 * * 1-5"
`,
  },
  AgentSkillTemplate: {
    classification: "template",
    description: "A skill as agents are given it.",
    schema: object({ kind: of("AgentSkillTemplate"), ...about, ...skill, setup_actions }, "config_ref"),
    sample: `kind: AgentSkillTemplate
lookup_key: refunds-skill
config_ref: refunds
status: active
instruction: Use it for every question about money.
`,
  },
  AgentTemplate: {
    classification: "template",
    description: "An agent with all that hangs on it.",
    schema: object(
      {
        kind: of("AgentTemplate"),
        ...about,
        agent_key: orNull(key),
        name,
        identity: orNull({ type: "string", maxLength: 65_536 }),
        model: orNull(text),
        tools: list({ ...object(tool), anyOf: [...either("tool_type", "kind"), { required: ["template_path"] }] }),
        skills: list(object(skill, "config_ref")),
        routines: list(object(routine)),
        installations: list(installation),
        computers: list(object(computer, "name")),
        schedules: list(map),
        setup_actions,
        metadata: orNull(map),
      },
      "name",
    ),
    sample: `kind: AgentTemplate
lookup_key: support
name: Ada
identity: You answer customers briefly and kindly.
tools:
  - tool_type: builtin
    builtin_tool_key: knowledge_search
  - tool_type: custom
    name: order_status
    description: Looks up an order by its number.
    handler_type: script
    config_ref: order-status
    parameters:
      type: object
      properties:
        number: { type: string }
      required: [number]
skills:
  - config_ref: refunds
routines:
  - name: Morning digest
    handler_type: preset
    preset_name: do_task
    preset_instructions: Sum up yesterday's tickets.
    event_type: schedule.cron
    schedule: "0 7 * * 1-5"
installations:
  - install_type: archastro/knowledge
setup_actions:
  - action_type: env_var
    title: The shop's key
    dedupe_key: shop-key
    params: { key: SHOP_KEY, secret: true }
`,
  },
  AgentToolTemplate: {
    classification: "template",
    description: "A tool as agents are given it.",
    schema: {
      ...object(
        { ...tool, kind: { enum: ["AgentToolTemplate", "builtin", "custom"] }, display_name: name, setup_actions },
        "name",
        "display_name",
      ),
    },
    sample: `kind: AgentToolTemplate
lookup_key: order-status-tool
tool_type: custom
name: order_status
display_name: Order status
description: Looks up an order by its number.
handler_type: script
config_ref: order-status
parameters:
  type: object
  properties:
    number: { type: string }
  required: [number]
`,
  },
  Automation: {
    classification: "definition",
    description: "What is done when something happens, at a time, or when it is invoked; on no agent.",
    schema: object(
      {
        kind: of("Automation"),
        ...about,
        name,
        ...automation,
        metadata: orNull(map),
      },
      "name",
    ),
    read: readAutomation,
    sample: `kind: Automation
lookup_key: new-ticket
name: New ticket
status: draft
automation_type: trigger
event_type: webhook.inbound
config_ref: triage
`,
  },
  AutomationTemplate: {
    classification: "template",
    description: "An automation as it is set up.",
    schema: object(
      {
        kind: of("AutomationTemplate"),
        ...about,
        name,
        display_name: orNull(name),
        ...automation,
        setup_actions,
        metadata: orNull(map),
      },
      "name",
    ),
    read: readAutomation,
    sample: `kind: AutomationTemplate
lookup_key: new-ticket-template
name: new-ticket
display_name: New ticket
event_type: webhook.inbound
config_ref: triage
`,
  },
  Config: { classification: "file", description: "Any text or data, kept as it is." },
  File: { classification: "file", description: "A file, kept as it is." },
  HttpTool: {
    classification: "definition",
    description: "The request that a tool makes. Its texts are templates over the tool's arguments: {{ name }}.",
    schema: {
      ...strict(
        {
          kind: of("HttpTool"),
          lookup_key: orNull(key),
          method: { enum: ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] },
          url,
          headers,
          query: headers,
          body: { type: ["object", "array", "string", "null"] },
          auth,
          hosts,
          timeout_s: { type: "number", exclusiveMinimum: 0, maximum: 120 },
          max_bytes: { type: "integer", minimum: 1, maximum: 10_000_000 },
        },
        "method",
        "url",
      ),
      // Without hosts, the URL's own is the only one: an argument must not choose it.
      if: { not: { required: ["hosts"] } },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { properties: { url: { pattern: "^https?://[^/?#{}@]+([/?#]|$)" } } },
    },
    sample: `kind: HttpTool
method: GET
url: https://shop.example/orders/{{ number }}
headers:
  Accept: application/json
auth:
  env_var: SHOP_KEY
  as: bearer
timeout_s: 10
max_bytes: 100000
`,
  },
  Image: { classification: "file", description: "A picture, as base64." },
  McpServer: {
    classification: "definition",
    description: "A server of the Model Context Protocol, and which of its tools may be used.",
    schema: strict(
      {
        kind: of("McpServer"),
        lookup_key: orNull(key),
        url,
        transport: { enum: ["streamable_http", "sse"] },
        auth,
        tools: { type: "array", items: name, maxItems: 200, uniqueItems: true },
      },
      "url",
    ),
    sample: `kind: McpServer
url: https://mcp.example/mcp
transport: streamable_http
auth:
  env_var: MCP_KEY
  as: bearer
tools: [search, fetch]
`,
  },
  NotificationType: {
    classification: "definition",
    description: "A kind of notification that people are sent and can turn off.",
    schema: object(
      {
        kind: of("NotificationType"),
        ...about,
        key: orNull(key),
        name,
        channels: texts,
        template: orNull(map),
        metadata: orNull(map),
      },
      "name",
    ),
    sample: `kind: NotificationType
key: ticket-assigned
name: Ticket assigned
description: Somebody gave you a ticket.
channels: [email, in_app]
`,
  },
  Script: {
    classification: "definition",
    description: "A script, in the language that /api/v1/scripts/language describes.",
    script: true,
    sample: `input number
let http = import("requests")
unwrap(http.get("https://shop.example/orders/" + number)).body
`,
  },
  Skill: {
    classification: "bundle",
    description: "What an agent can read up on: Markdown with front matter. Its files are its children.",
    document: true,
    schema: object(
      { name, description: text, "allowed-tools": { type: ["array", "string", "null"] }, metadata: orNull(map) },
      "name",
      "description",
    ),
    sample: `---
name: refunds
description: When and how money goes back to a customer.
allowed-tools: [order_status]
---

# Refunds

Within thirty days, always. After that, ask a person.
`,
  },
  Solution: {
    classification: "bundle",
    description: "Templates and what they need, as it is offered to others.",
    schema: object(
      {
        kind: of("Solution"),
        ...about,
        solution_id: {
          type: "string",
          pattern: "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
        },
        solution_version: { type: "string", pattern: "^v?\\d+\\.\\d+\\.\\d+([-+][0-9A-Za-z.+-]+)?$" },
        name,
        category_keys: texts,
        tag_keys: texts,
        readme: orNull(text),
        assets: list(object({ asset_path: text }, "asset_path")),
        templates: list(object({ template_path: text, readme_path: orNull(text) }, "template_path")),
        image: orNull(text),
        screenshots: { type: ["array", "null"] },
        events: { type: ["array", "object", "null"] },
        org: orNull(text),
        metadata: orNull(map),
      },
      "name",
    ),
    sample: `kind: Solution
lookup_key: support-desk
solution_id: 4f1c2f0e-5b0a-4b5e-9a77-0d5c0b1f2a3e
solution_version: 1.0.0
name: Support desk
description: An agent that answers customers.
category_keys: [support]
templates:
  - template_path: agents/support.yaml
`,
  },
  WorkflowGraph: {
    classification: "definition",
    description: "Steps, and which follows which.",
    schema: object(
      {
        kind: of("WorkflowGraph"),
        ...about,
        version: { type: ["integer", "string", "null"] },
        start_node: orNull(key),
        nodes: list(object({ kind: key, id: key, on_success: {}, on_error: {} }, "id"), MAX_NODES),
        data: list(object({ kind: key, id: key, script: orNull(text) }, "kind", "id"), MAX_NODES),
      },
      "nodes",
    ),
    read: readGraph,
    sample: `kind: WorkflowGraph
version: 1
name: Triage
start_node: start
nodes:
  - { kind: WorkflowTrigger, id: start, on_success: sort }
  - { kind: WorkflowScript, id: sort, script: sort-ticket }
data:
  - { kind: Script, id: sort-ticket, script: "$.ticket" }
`,
  },
};

/** Their names, in alphabetical order. */
export const configKindNames: readonly string[] = Object.keys(configKinds);
/** Whether content of the kind is parsed, and compared by what it says instead of by its bytes. */
export const isStructured = (kind: string) => Boolean(configKinds[kind]?.schema && !configKinds[kind].document);
