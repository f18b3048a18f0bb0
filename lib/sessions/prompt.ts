/** The conversation that a session's frames tell, and what a model is asked with it: both made anew from the journal. */
import { type Message, message, type StepRequest } from "../model/index.ts";
import type { OfferedTool, PinnedAgent } from "../tools/calls.ts";
import type { InboxMessage, SessionFrame } from "./frames.ts";

type ToolResult = NonNullable<Message["tool_results"]>[number];
type Told = { id: string; name: string; content: string | null; resolution: unknown };

/**
 * What was said, in order. A message joins it when a turn takes it; a call's result, at the turn after the call. What an
 * async tool gives later joins as a message of its own: its call was answered `accepted` before.
 */
export class Conversation {
  readonly messages: Message[] = [];
  /** Messages that no turn has taken yet, by their sequence. */
  readonly inbox = new Map<number, InboxMessage>();
  /** What providers call the session's calls. */
  readonly providerIds = new Map<string, string>();
  /** Of all messages, in characters of JSON. */
  size = 0;
  /** Of those in the inbox, in characters. */
  waiting = 0;
  /** The calls of the newest turn in their order, and the results that are there. */
  #asked: { id: string; name: string }[] = [];
  readonly #results = new Map<string, Told>();
  readonly #accepted = new Set<string>();
  #late: Told[] = [];

  constructor(instructions: string) {
    this.#say(message({ role: "user", content: instructions }));
  }

  take(frame: SessionFrame): void {
    switch (frame.type) {
      case "message.received":
        this.inbox.set(frame.sequence, frame.message);
        this.waiting += frame.message.content.length;
        break;
      case "model.started":
        this.join(frame.inbox);
        break;
      case "model.completed":
        this.#say(frame.message as Message);
        this.#asked = (frame.message.tool_calls ?? []).map(({ id, name }) => ({ id, name }));
        for (const [ours, theirs] of Object.entries(frame.provider_ids)) this.providerIds.set(ours, theirs);
        break;
      case "tool.called":
        if (frame.async) this.#accepted.add(frame.call);
        break;
      case "tool.completed":
        if (frame.message !== null) this.#leaves(frame.message);
        this.#answer({
          id: frame.call,
          name: frame.name,
          ...frame.result,
          resolution: frame.result.resolution ?? null,
        });
        break;
      case "tool.failed":
        this.#answer({ id: frame.call, name: frame.name, content: `Error: ${frame.error}`, resolution: null });
        break;
      case "approval.decided":
        if (frame.approved) break;
        this.#answer({
          ...{ id: frame.call, name: frame.name, resolution: null },
          content: `Error: a person has denied this call${frame.note ? `: ${frame.note}` : "."}`,
        });
        break;
    }
  }

  /** Takes results, and messages up to a sequence, into the conversation. Again, it changes nothing. */
  join(inbox: number): void {
    if (this.#asked.length) {
      const results = this.#asked.map(({ id, name }): ToolResult => {
        const told = this.#results.get(id);
        if (told) return told;
        return { id, name, content: this.#accepted.has(id) ? "accepted" : "Error: it was not run", resolution: null };
      });
      this.#say(message({ role: "tool", tool_results: results }));
      this.#asked = [];
    }
    for (const { id, name, content, resolution } of this.#late) {
      const said = content ?? JSON.stringify(resolution);
      this.#say(
        message({ role: "user", content: `The result of ${name} (${id}), which was accepted before:\n${said}` }),
      );
    }
    this.#late = [];
    for (const [sequence, { role, content }] of this.inbox) {
      if (sequence > inbox) break;
      this.#say(message({ role, content }));
      this.#leaves(sequence);
    }
  }

  #leaves(sequence: number) {
    this.waiting -= this.inbox.get(sequence)?.content.length ?? 0;
    this.inbox.delete(sequence);
  }

  #answer(told: Told) {
    this.#results.set(told.id, told);
    if (!this.#asked.some(({ id }) => id === told.id)) this.#late.push(told);
  }

  #say(said: Message) {
    this.messages.push(said);
    this.size += JSON.stringify(said).length;
  }
}

/** The identity, then what the agent's skills are for. */
function systemPrompt({ identity, skills }: PinnedAgent): string {
  const listed = skills.map(({ name, description }) => `- ${name}: ${description}`);
  const told = listed.length
    ? ["Your skills, whose instructions you read before you use one:", ...listed].join("\n")
    : "";
  return [identity ?? "", told].filter(Boolean).join("\n\n");
}

/**
 * What a model is asked: the whole conversation, with the provider's own names of its calls. What no frame has is masked
 * here: the identity, the skills and the instructions.
 */
export function requestOf(
  agent: PinnedAgent,
  { messages, providerIds }: Conversation,
  tools: readonly OfferedTool[],
  max_tokens: number,
  mask: <T>(value: T) => T,
): StepRequest {
  const system = mask(systemPrompt(agent));
  const theirs = (id: string) => providerIds.get(id) ?? id;
  const named = messages.map(({ tool_calls, tool_results, ...rest }, i) => ({
    ...rest,
    ...(i === 0 && { content: mask(rest.content) }),
    tool_calls: tool_calls?.map((call) => ({ ...call, id: theirs(call.id) })) ?? null,
    tool_results: tool_results?.map((result) => ({ ...result, id: theirs(result.id) })) ?? null,
  }));
  return {
    messages: [...(system ? [message({ role: "system", content: system })] : []), ...named],
    tools: tools.map(({ name, description, parameters }) => ({ name, description, parameters })),
    max_tokens,
  };
}
