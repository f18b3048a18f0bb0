/**
 * The tools that agentry brings (CONTRACT.md §5.9), each with the functions that a model sees. What nothing stands behind
 * yet can be installed, and waits.
 */
export type Builtin = {
  key: string;
  label: string;
  description: string;
  instruction: string | null;
  requires_integration: boolean;
  /** JSON Schema of `builtin_tool_config`. */
  config_schema: Record<string, unknown>;
  tools: { name: string; description: string }[];
  /** Something stands behind it, so that it can be activated. */
  available: boolean;
};

const nothing = { type: "object", properties: {}, additionalProperties: false };
const entry = (
  key: string,
  label: string,
  description: string,
  tools: Record<string, string>,
  more: Partial<Builtin> = {},
): Builtin => ({
  ...{
    key,
    label,
    description,
    instruction: null,
    requires_integration: false,
    config_schema: nothing,
    available: false,
  },
  tools: Object.entries(tools).map(([name, says]) => ({ name, description: says })),
  ...more,
});
const available = { available: true };

export const catalog: readonly Builtin[] = [
  entry("search", "Search", "Searches the agent's threads, files and knowledge.", {
    search: "Finds passages in everything that the agent may read.",
  }),
  entry("knowledge_search", "Knowledge search", "Searches the knowledge that the agent was given.", {
    knowledge_search: "Finds passages in the agent's documents.",
  }),
  entry(
    "integrations",
    "Integrations",
    "Calls the services that the agent is connected to.",
    {
      integrations_list: "Lists the connected services and what each can do.",
      integrations_call: "Calls one of them.",
    },
    { requires_integration: true },
  ),
  entry("long_term_memory", "Long-term memory", "Remembers across conversations, and finds again by meaning.", {
    long_term_memory_store: "Keeps something for good.",
    long_term_memory_search: "Finds what was kept, by meaning.",
  }),
  entry(
    "memory",
    "Memory",
    "Working memory: facts and preferences under a key.",
    { memory_store: "Keeps a value under a key.", memory_recall: "Reads what is kept, by key or part of one." },
    available,
  ),
  entry("artifacts", "Artifacts", "Makes documents that people can open and change.", {
    artifacts_create: "Makes a document.",
    artifacts_update: "Makes a document's next version.",
    artifacts_read: "Reads a document.",
  }),
  entry("task_list", "Task list", "Keeps a list of what there is to do.", {
    task_list_add: "Adds a task.",
    task_list_update: "Changes a task or its state.",
    task_list_read: "Lists the tasks.",
  }),
  entry(
    "skills",
    "Skills",
    "Reads the instructions and files of the agent's active skills.",
    { skills_read: "Reads a skill, or a file of it." },
    available,
  ),
  entry("sub_agents", "Sub-agents", "Hands work to other agents of the org.", {
    sub_agents_list: "Lists the agents that take work.",
    sub_agents_start: "Gives one a task.",
    sub_agents_result: "Reads how far a task is, and its result.",
  }),
  entry("wait", "Wait", "Waits for a while, or for the next message.", { wait: "Waits." }, available),
  entry(
    "scheduling",
    "Scheduling",
    "Wakes the agent later, once or again and again.",
    {
      create_schedule: "Makes a schedule.",
      list_schedules: "Lists the agent's schedules.",
      cancel_schedule: "Ends a schedule.",
    },
    available,
  ),
  entry("computer", "Computer", "Runs commands on a computer of the agent's own.", {
    computer_exec: "Runs a command.",
    computer_read_file: "Reads a file.",
    computer_write_file: "Writes a file.",
  }),
  entry("images", "Images", "Makes and changes images.", {
    images_generate: "Makes an image from a description.",
    images_edit: "Changes an image.",
  }),
  entry(
    "http_fetch",
    "Fetch",
    "Reads a public web address.",
    { http_fetch: "Answers what a GET of the address gives." },
    available,
  ),
];

export const builtins = new Map(catalog.map((builtin) => [builtin.key, builtin]));
/** Keys of those that can be activated. */
export const availableKeys = catalog.filter((builtin) => builtin.available).map(({ key }) => key);
/** Names that no tool of a developer's may have: those of the functions above, and of what every session is offered. */
export const reservedNames: ReadonlySet<string> = new Set([
  ...catalog.flatMap(({ tools }) => tools.map(({ name }) => name)),
  "finish",
  "ask_user",
]);
