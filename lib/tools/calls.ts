/** What a session needs of tools: what it pins, what it offers to its model, and what a call gives. */
import type { Approval, Effect } from "../db/schema.ts";
import type { Answer } from "../script/index.ts";

/** A config as it was when the session began. */
export type PinnedConfig = { id: string; version: number };

type Ways = { effect: Effect; approval: Approval; async: boolean };
/** How a function is called by the model. `description` has the tool's instruction in it. */
type Function = { name: string; description: string; parameters: Record<string, unknown> };

/** A function that a session offers to its model. */
export type OfferedTool = Function &
  Ways & {
    handler:
      | { type: "http"; config: PinnedConfig }
      | { type: "script"; config: PinnedConfig }
      /** `tool` as the server calls it. */
      | { type: "mcp"; config: PinnedConfig; tool: string }
      /** `key` of the catalog; `function` is the name of one of its functions. Null: every session has it. */
      | { type: "builtin"; key: string | null; function: string; config: Record<string, unknown> };
  };

/** A server of tools, which is asked for them when the session first needs them. */
export type PinnedServer = Pick<Ways, "approval"> & {
  tool_id: string;
  /** Null: what the server says of each tool, and `once` where it says nothing. */
  effect: Effect | null;
  prefix: string | null;
  instruction: string | null;
  config: PinnedConfig;
};
export type PinnedSkill = { id: string; name: string; description: string; config: PinnedConfig };

/** An agent as a session keeps it from its start on: plain JSON, without a secret. */
export type PinnedAgent = {
  id: string;
  name: string | null;
  identity: string | null;
  model: string | null;
  tools: OfferedTool[];
  servers: PinnedServer[];
  skills: PinnedSkill[];
};

/** One call, as the session's ledger has it. */
export type ToolAsk = {
  call: string;
  /** Counts from 1. */
  attempt: number;
  /** Made by the session, the same at every attempt. */
  idempotency_key: string;
  arguments: Record<string, unknown>;
  /** When it was first begun, ISO 8601: a script's clock starts there. */
  begun_at: string;
  signal: AbortSignal;
  /** Calls that the tool's script made at an earlier attempt, in order, answered; of the last maybe no answer is known. */
  outbound: readonly Outbound[];
  /** Writes down one that begins (`answer` null), and then its answer. Returns it as it was written: masked. */
  note: (outbound: Omit<Outbound, "at">) => Outbound;
};
export type Outbound = { n: number; name: string; hash: string; answer: Answer | null; at: string };

/** What came of a call. */
export type ToolAnswer =
  | { ok: { content: string | null; resolution: unknown } }
  /** Told to the model: it may do better. */
  | { error: string }
  /** Sent, and nobody knows whether it happened: of `once` alone. */
  | { unknown: true };
