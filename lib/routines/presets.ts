import * as v from "valibot";

export const preset = v.strictObject({
  name: v.string(),
  label: v.string(),
  description: v.string(),
  /** What starts it; `*` is anything. */
  applicable_events: v.array(v.string()),
  chainable: v.boolean(),
  sessionable: v.boolean(),
  unique: v.boolean(),
});
type Preset = v.InferOutput<typeof preset>;

/**
 * What a routine can do without a script of one's own. The names are the contract's. Which events start one and which of
 * them an agent has but once, the database keeps too (agent_routines_event_type_fits, …_preset_name_once).
 */
export const presets: readonly Preset[] = [
  {
    ...{ name: "participate", label: "Take part in a conversation" },
    description: "The agent joins the conversations that it is added to, and answers.",
    ...{ applicable_events: ["thread.session.join"], chainable: false, sessionable: true, unique: true },
  },
  {
    ...{ name: "do_task", label: "Do a task" },
    description: "The agent does what its instructions say, with its tools.",
    ...{ applicable_events: ["*"], chainable: true, sessionable: true, unique: false },
  },
  {
    ...{ name: "send_message", label: "Send a message" },
    description: "The agent writes one message, as its instructions say.",
    ...{ applicable_events: ["*"], chainable: true, sessionable: false, unique: false },
  },
  {
    ...{ name: "auto_memory_capture", label: "Remember a conversation" },
    description: "When a conversation ends, the agent keeps what is worth remembering.",
    ...{ applicable_events: ["thread.session.leave"], chainable: false, sessionable: false, unique: true },
  },
];
export const presetNames = presets.map(({ name }) => name);
export const presetNamed = (name: string | null | undefined) => presets.find((one) => one.name === name);
