/** The forms of structured answers: AgentMessageSchema configs, and what guards their fields. */
import { schemaOf, toAnswers, toMessages } from "../ai/evaluate.ts";
import type { Question } from "../ai/schema.ts";
import { bytesOf, parseTogether, type Read, textOf } from "../configs/content.ts";
import { faultOf } from "../configs/json-schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { isMap } from "../http/valid.ts";
import type { StepRequest } from "../model/index.ts";
import type { PinnedConfig } from "../tools/calls.ts";
import { contentOf, type Text } from "../tools/toolbox.ts";

type Guard = {
  kind: "RegexMatch" | "ContainsAny" | "ContainsString" | "LLMJudge";
  fields: string[];
  pattern?: string | null;
  values?: string[] | null;
  case_sensitive?: boolean | null;
  model?: string | null;
  prompt?: string | null;
  message?: string | null;
};
export type Form = { schema: Record<string, unknown>; field_guards: Guard[] };
/** Asks a model, by its name (null: the run's own), and gives the JSON of its answer. */
export type Judge = (model: string | null, request: StepRequest) => Promise<unknown>;

/** Of all forms of an answer, in words of YAML and in values. */
const MAX_READ = 100_000;
/** Of a field that is looked at, in characters. */
const MAX_FIELD = 20_000;

/** What a structured config says; null where it can't be read. */
export function saidOf({ mime_type, encoding, content }: Text, read: Read = parseTogether(MAX_READ, MAX_READ)) {
  const bytes = bytesOf({ encoding, text: content });
  const text = bytes && textOf(bytes);
  const parsed = text === null ? null : read(mime_type, text);
  return parsed && "value" in parsed && isMap(parsed.value) ? parsed.value : null;
}

/** What these configs say. One that can't be read says nothing, and nothing fits it. */
export async function formsOf(db: TenantDb, configs: readonly PinnedConfig[]): Promise<Form[]> {
  const read = parseTogether(MAX_READ, MAX_READ);
  const found = await Promise.all(configs.map(({ id, version }) => contentOf(db, id, version)));
  return found.map((content) => {
    const { schema, field_guards } = ((content && saidOf(content, read)) ?? {}) as {
      schema?: Record<string, unknown>;
      field_guards?: Guard[] | null;
    };
    return { schema: isMap(schema) ? schema : { not: {} }, field_guards: field_guards ?? [] };
  });
}

/** What a session is asked to finish with: an answer of one of the forms. */
export const schemaOfForms = (forms: readonly Form[]): Record<string, unknown> =>
  forms.length === 1
    ? { ...forms[0]!.schema, type: "object" }
    : { type: "object", anyOf: forms.map(({ schema }) => schema) };

/** What is wrong with an answer, as a sentence for the model that gave it; null where one of the forms takes it. */
export async function misfit(forms: readonly Form[], answer: unknown, judge: Judge): Promise<string | null> {
  let first: string | null = null;
  for (const { schema, field_guards } of forms) {
    const fault = faultOf(schema, answer, "the answer") ?? (await guarded(field_guards, answer, judge));
    if (fault === null) return null;
    first ??= fault;
  }
  return first;
}

async function guarded(guards: readonly Guard[], answer: unknown, judge: Judge): Promise<string | null> {
  for (const guard of guards) {
    for (const [field, text] of fieldsOf(answer, guard.fields)) {
      if (await matches(guard, text, judge))
        return guard.message || `${field} has what its guard ${guard.kind} refuses`;
    }
  }
  return null;
}

/** The fields that a guard looks at, by their path; `*` is all. What isn't a text is looked at as JSON. */
function fieldsOf(answer: unknown, fields: readonly string[]): [string, string][] {
  if (!isMap(answer)) return [];
  const textOf = (value: unknown) =>
    (typeof value === "string" ? value : JSON.stringify(value ?? null)).slice(0, MAX_FIELD);
  if (fields.includes("*")) return Object.entries(answer).map(([name, value]) => [name, textOf(value)]);
  return fields.flatMap((path): [string, string][] => {
    const value = path
      .split(".")
      .reduce<unknown>((inner, key) => (isMap(inner) && Object.hasOwn(inner, key) ? inner[key] : undefined), answer);
    return value === undefined ? [] : [[path, textOf(value)]];
  });
}

async function matches({ kind, ...guard }: Guard, text: string, judge: Judge): Promise<boolean> {
  const cased = (one: string) => (guard.case_sensitive ? one : one.toLowerCase());
  const values = [...(guard.values ?? []), ...(guard.pattern ? [guard.pattern] : [])];
  switch (kind) {
    case "ContainsAny":
    case "ContainsString":
      return values.some((value) => value && cased(text).includes(cased(value)));
    case "RegexMatch":
      return faultOf({ type: "string", pattern: guard.pattern ?? "" }, text, "it") === null;
    case "LLMJudge": {
      const question = { id: "q", type: "boolean", instructions: guard.prompt ?? "Is it improper?" } as Question;
      const request = { messages: toMessages(text, [question]), structured_output: schemaOf([question]) };
      const output = await judge(guard.model ?? null, request);
      const fault = faultOf(schemaOf([question]), output, "the judgement");
      if (fault) throw new Error(`its guard couldn't be asked: ${fault}`);
      const [judged] = toAnswers([question], output as Record<string, unknown>);
      return judged?.type === "boolean" && judged.probability >= 0.5;
    }
  }
}
