/** The content of configs: read from YAML, JSON or bytes, judged by a kind, and compared. */
import { type Document, isScalar, Lexer, LineCounter, parseAllDocuments, stringify, visit } from "yaml";
import { nearest, ScriptError } from "../script/errors.ts";
import { lex } from "../script/lexer.ts";
import { parse } from "../script/parser.ts";
import { type Fault, validateAgainst } from "./json-schema.ts";
import { configKinds, isStructured } from "./kinds.ts";

export const MAX_CONTENT_BYTES = 1024 * 1024;
const MAX_DEPTH = 64;
export const MAX_VALUES = 100_000;
/** Of YAML, which takes a hundred times as long to read as JSON: about 12,000 fields. */
export const MAX_WORDS = 100_000;
/** A name in YAML may stand for a part many times over: what that comes to is bounded, too. */
const MAX_ALIASES = 100;

export type Encoding = "raw" | "base64";
/** Content as it came. */
export type Content = { mime_type: string; encoding: Encoding; text: string };
/** What a kind says of content: its hash, where there is no fault. */
export type Judged = { errors: Fault[]; warnings: Fault[]; hash: string | null };

export const utf8 = (text: string) => new TextEncoder().encode(text) as Uint8Array<ArrayBuffer>;
const plainType = (mime: string) => mime.split(";")[0]!.trim().toLowerCase();
const isJson = (mime: string) => /^(application|text)\/([\w.-]+\+)?json$/.test(plainType(mime));
const isYaml = (mime: string) => /^(application|text)\/(x-|vnd\.|[\w.-]+\+)?yaml$/.test(plainType(mime));

/** The content's bytes; null where it says that it is base64 and isn't. */
export function bytesOf({ encoding, text }: Pick<Content, "encoding" | "text">): Uint8Array<ArrayBuffer> | null {
  if (encoding === "raw") return utf8(text);
  try {
    const letters = atob(text);
    const bytes = new Uint8Array(letters.length);
    // By hand: `Uint8Array.from` takes ten times as long.
    for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
    return bytes;
  } catch {
    return null;
  }
}

/** A value of JSON, or what is wrong with the text. */
export type Parsed = { value: unknown } | { fault: string };
/** How much may still be read, and what is said where that is too little. */
type Budget = { words: number; values: number; tooManyWords: string; tooManyValues: string };
const budgetOf = (words: number, values: number, where: string): Budget => ({
  ...{ words, values },
  tooManyWords: `must have at most ${words} words, marks and gaps${where}: send JSON instead`,
  tooManyValues: `must hold at most ${values} values${where}`,
});

/** Reads YAML 1.2 or JSON, as the MIME type says. Whatever is read is a value of JSON, and of a bounded size. */
export type Read = (mime: string, text: string) => Parsed;
export const parseStructured: Read = (mime, text) => parseWithin(budgetOf(MAX_WORDS, MAX_VALUES, ""), mime, text);

/** Reads texts that come together: in all no more than so many words of YAML, and values. */
export function parseTogether(words: number, values: number): Read {
  const budget = budgetOf(words, values, " together with what else is read");
  return (mime, text) => parseWithin(budget, mime, text);
}

function parseWithin(budget: Budget, mime: string, text: string): Parsed {
  if (!isJson(mime) && !isYaml(mime)) return { fault: "must be YAML or JSON, and mime_type must say which" };
  if (budget.values <= 0) return { fault: budget.tooManyValues };
  const parsed = isJson(mime) ? parseJson(text) : parseYaml(text, budget);
  if ("fault" in parsed) return parsed;
  const fault = survey(parsed.value, budget);
  return fault ? { fault } : parsed;
}

function parseJson(text: string): Parsed {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return { fault: "is not valid JSON" };
  }
}

function parseYaml(text: string, budget: Budget): Parsed {
  const tooMuch = skim(text, budget);
  if (tooMuch) return { fault: tooMuch };
  try {
    const lineCounter = new LineCounter();
    // That no name comes twice is looked for here: the reader compares each with each.
    const options = { version: "1.2", schema: "core", uniqueKeys: false, lineCounter, prettyErrors: false } as const;
    const [document, another] = parseAllDocuments(text, options) as Document.Parsed[];
    if (!document) return { value: null };
    if (another) return { fault: "must be one YAML document" };
    const at = document.errors[0]?.pos[0] ?? repeatedName(document);
    if (at !== null) {
      const { line, col } = lineCounter.linePos(at);
      const why = document.errors.length ? "is not valid YAML" : "has one name twice";
      return { fault: `${why}: line ${line}, column ${col}` };
    }
    return { value: document.toJS({ maxAliasCount: MAX_ALIASES }) };
  } catch (error) {
    // What it expands to is too much, or it is nested deeper than the stack.
    if (error instanceof ReferenceError || error instanceof RangeError) {
      return { fault: "repeats or nests too much" };
    }
    throw error;
  }
}

/** Looks at the text's words before anything is made of them: that is cheap, and what is made of very many is not. */
function skim(text: string, budget: Budget): string | null {
  let depth = 0;
  if (budget.words <= 0) return budget.tooManyWords;
  for (const word of new Lexer().lex(text)) {
    if (--budget.words < 0) return budget.tooManyWords;
    if (word === "[" || word === "{") depth++;
    else if (word === "]" || word === "}") depth--;
    if (depth > MAX_DEPTH) return `must not be nested deeper than ${MAX_DEPTH}`;
  }
  return null;
}

/** Where a map has a name for the second time. */
function repeatedName(document: Document.Parsed): number | null {
  let at: number | null = null;
  visit(document, {
    Map(_, { items }) {
      const names = new Set<unknown>();
      for (const { key } of items) {
        const name = isScalar(key) ? String(key.value) : null;
        if (name !== null && names.size === names.add(name).size) at ??= (key as { range?: number[] }).range?.[0] ?? 0;
      }
    },
  });
  return at;
}

/** Whether a value is one of JSON and small enough. A part that two others share counts for each. */
function survey(value: unknown, budget: Budget): string | null {
  let characters = 0;
  let fault: string | null = null;
  const look = (part: unknown, depth: number) => {
    if (fault) return;
    if (--budget.values < 0) fault = budget.tooManyValues;
    else if (depth > MAX_DEPTH) fault = `must not be nested deeper than ${MAX_DEPTH}`;
    else if (typeof part === "string") {
      characters += part.length;
      if (characters > 2 * MAX_CONTENT_BYTES) fault = "repeats too much";
      if (!part.isWellFormed() || part.includes("\0")) fault = "must be well-formed text without NUL";
    } else if (typeof part === "number") {
      if (!Number.isFinite(part)) fault = "must hold finite numbers";
    } else if (Array.isArray(part)) for (const item of part) look(item, depth + 1);
    else if (typeof part === "object" && part !== null) {
      if (!isPlain(part)) fault = "must hold nothing but values of JSON";
      for (const [name, item] of Object.entries(part)) {
        look(name, depth + 1);
        look(item, depth + 1);
      }
    } else if (part !== null && typeof part !== "boolean") fault = "must hold nothing but values of JSON";
  };
  look(value, 1);
  return fault;
}

const isPlain = (value: object) => [Object.prototype, null].includes(Object.getPrototypeOf(value));

/** The one JSON text of a value: names in the order of their code units, no space. Equal values, and no others, share it. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const map = value as Record<string, unknown>;
  const fields = Object.keys(map).sort();
  return `{${fields.map((name) => `${JSON.stringify(name)}:${canonical(map[name])}`).join(",")}}`;
}

async function hashOf(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return `sha256:${[...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** The front matter of a document, parsed; {} where there is none. */
export function frontMatter(text: string, read: Read): Parsed {
  const [, matter] = text.match(/^\uFEFF?---[ \t]*\r?\n(?:([\s\S]*?)\r?\n)?---[ \t]*(?:\r?\n|$)/) ?? [];
  return matter === undefined ? { value: {} } : read("application/yaml", matter);
}

/** Says all that is wrong with content of each of these kinds, and what there is to say otherwise. */
export async function judge(
  kinds: readonly string[],
  content: Content,
  read: Read = parseStructured,
): Promise<Map<string, Judged>> {
  const bytes = bytesOf(content);
  const every = (message: string) =>
    new Map(kinds.map((kind) => [kind, { errors: [{ pointer: "", message }], warnings: [], hash: null }]));
  if (!bytes) return every("is not base64");
  if (bytes.length > MAX_CONTENT_BYTES) return every("must have at most 1 MB");
  // Bytes that are no text stay what they are; what a kind reads must be text.
  const text = content.encoding === "raw" ? content.text : textOf(bytes);
  const parsed = text !== null && kinds.some(isStructured) ? read(content.mime_type, text) : null;
  const ofValue = parsed && "value" in parsed ? await hashOf(utf8(canonical(parsed.value))) : null;
  const ofBytes = kinds.every(isStructured) ? null : await hashOf(bytes);
  const judged = kinds.map((kind): [string, Judged] => {
    const findings = judgeAs(kind, text, parsed, read);
    const hash = isStructured(kind) ? ofValue : ofBytes;
    return [kind, { ...findings, hash: findings.errors.length ? null : hash }];
  });
  return new Map(judged);
}

/** The value of content; null where it can't be read. */
export function valueIn({ mime_type, ...content }: Content, read: Read = parseStructured): unknown {
  const bytes = bytesOf(content);
  const text = bytes && textOf(bytes);
  const parsed = text === null ? null : read(mime_type, text);
  return parsed && "value" in parsed ? parsed.value : null;
}

/** The text of bytes; null where they are none. */
export function textOf(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

function judgeAs(name: string, text: string | null, parsed: Parsed | null, by: Read): Omit<Judged, "hash"> {
  const only = (message: string) => ({ errors: [{ pointer: "", message }], warnings: [] });
  const kind = configKinds[name];
  if (!kind) return only("is of no known kind");
  if (!kind.schema && !kind.script) return { errors: [], warnings: [] };
  if (text === null) return only("must be text");
  if (kind.script) return judgeScript(text);
  const read = kind.document ? frontMatter(text, by) : parsed!;
  if ("fault" in read) return only(read.fault);
  const schema = kind.schema!;
  const errors = validateAgainst(schema, read.value);
  const warnings = unknownFields(schema, read.value);
  const found = errors.length ? [] : (kind.read?.(read.value).findings ?? []);
  const of = (severity: "error" | "warning") =>
    found.flatMap((one) => (one.severity === severity ? [{ pointer: one.pointer, message: one.message }] : []));
  return { errors: [...errors, ...of("error")], warnings: [...warnings, ...of("warning")] };
}

/** What isn't the language is an error; what it calls may be there by the time that it runs. */
function judgeScript(text: string): Omit<Judged, "hash"> {
  try {
    parse(lex(text));
    return { errors: [], warnings: [] };
  } catch (error) {
    if (!(error instanceof ScriptError)) throw error;
    const { line = 1, column = 1 } = error.at ?? {};
    return { errors: [{ pointer: "", message: `line ${line}, column ${column}: ${error.message}` }], warnings: [] };
  }
}

function unknownFields(schema: Record<string, unknown>, value: unknown): Fault[] {
  if (schema.additionalProperties === false || typeof value !== "object" || value === null) return [];
  const known = Object.keys(schema.properties ?? {});
  return Object.keys(value)
    .filter((name) => !known.includes(name))
    .slice(0, 50)
    .map((name) => {
      const meant = nearest(name.slice(0, 100), known);
      const pointer = `/${name.slice(0, 100).replaceAll("~", "~0").replaceAll("/", "~1")}`;
      return { pointer, message: `is not a known field${meant ? `; did you mean "${meant}"?` : ""}` };
    });
}

/** A fault as one sentence, its pointer first. */
export const spoken = ({ pointer, message }: Fault) => `${pointer ? `${pointer}: ` : ""}${message}`;

/** The content as YAML or as JSON; null where it is neither of the two. */
export function convert({ mime_type, encoding, text }: Content, format: "yaml" | "json"): string | null {
  const parsed = encoding === "raw" ? parseStructured(mime_type, text) : null;
  if (!parsed || "fault" in parsed) return null;
  if (format === "json") return isJson(mime_type) ? text : `${JSON.stringify(parsed.value, null, 2)}\n`;
  return isYaml(mime_type) ? text : stringify(parsed.value, { aliasDuplicateObjects: false });
}
