import { Native, signature } from "./entry.ts";
import { builtins, namespaces } from "./namespaces/index.ts";
import { matchers } from "./namespaces/test.ts";
import { KEYWORDS, RESERVED } from "./parser.ts";
import type { Json } from "./values.ts";
import { LIMITS } from "./world.ts";

/** Counted up when scripts can say something new. */
const VERSION = 1;

const OPERATORS = [
  ".",
  "[]",
  "()",
  "?",
  "!",
  "-",
  "*",
  "/",
  "%",
  "+",
  "<",
  "<=",
  ">",
  ">=",
  "==",
  "!=",
  "&&",
  "||",
  "? :",
];

const SPECIAL = [
  { name: "$", doc: "The input document. Walking from it, as in `$.a.b[0].c`, gives null where a step is missing." },
  { name: "env", doc: "The runtime variables: `env.API_KEY`, null when there is none." },
  { name: "viewer", doc: "Whoever the script runs as, or null." },
];

const TYPES = [
  { name: "number", doc: "A number, whole or not; also `int` and `float`." },
  { name: "string", doc: "A text." },
  { name: "boolean", doc: "true or false; also `bool`." },
  { name: "array", doc: "`array<string>` says of what." },
  { name: "object", doc: "Fields by name; also `map`." },
  { name: "fn", doc: "A function; also `function`." },
  { name: "result", doc: "What a fallible call gives." },
  { name: "time", doc: "A string in ISO 8601." },
  { name: "null", doc: "`string?` is `string | null`." },
  { name: "any", doc: "Whatever it is." },
];

export interface Example {
  title: string;
  source: string;
  input?: Json;
  env?: Record<string, string>;
  gives: Json;
}

/** What the prompt shows, and a test runs; outbound calls are answered by `{status: 200, body: {items: […]}}`. */
export const examples: Example[] = [
  {
    title: "A tool that reads an API. Input is `$`, secrets are `env`, the last expression is the result.",
    source: `let http = import("requests")
let array = import("array")

let response = unwrap(http.get("https://api.example.com/items", {
  headers: { "Authorization": "Bearer " + env.API_TOKEN },
  query: { owner: $.owner, limit: 2 }
}))

if (response.status != 200) {
  { ok: false, message: "the API answered " + response.status }
} else {
  {
    ok: true,
    names: array.map(response.body.items, fn(item) { item.name })
  }
}`,
    input: { owner: "ada" },
    env: { API_TOKEN: "secret" },
    gives: { ok: true, names: ["one", "two"] },
  },
  {
    title: "Functions, closures, and a list instead of a loop.",
    source: `let scale = fn(factor) { fn(x) { x * factor } }
let double = scale(2)
array.reduce(array.map([1, 2, 3], double), 0, fn(sum, x) { sum + x })`,
    gives: 12,
  },
  {
    title: "Declared inputs, with types and a fallback. A missing one ends the script with a clear error.",
    source: `input name: string
input greeting: string = "Hello"
greeting + ", " + name + "!"`,
    input: { name: "Ada" },
    gives: "Hello, Ada!",
  },
  {
    title: "Results. `unwrap(r)` fails the script, `unwrap(r, d)` falls back, `r?` leaves the function with the error.",
    source: `let age = fn(text) {
  let years = string.parseInt(text)?
  if (years < 0) { result.err("too young") } else { result.ok(years) }
}
[unwrap(age("42")), unwrap(age("old"), 0), result.message(age("-1"))]`,
    gives: [42, 0, "too young"],
  },
  {
    title: "A verifier of a setup step answers `{ ok, message }`.",
    source: `let keys = ["SLACK_CHANNEL", "API_TOKEN"]
let missing = array.filter(keys, fn(key) { env[key] == null })
{
  ok: array.isEmpty(missing),
  message: array.isEmpty(missing) ? "ready" : "set " + array.join(missing, ", ")
}`,
    env: { API_TOKEN: "x" },
    gives: { ok: false, message: "set SLACK_CHANNEL" },
  },
  {
    title: "Patterns. Backslashes are doubled in strings.",
    source: `let m = string.match("release v1.20", "v(\\\\d+)\\\\.(\\\\d+)")
if (m == null) { null } else { { major: m.groups[0], minor: m.groups[1] } }`,
    gives: { major: "1", minor: "20" },
  },
];

const SNIPPETS = [
  { label: "let", insert: "let $" + "{1:name} = $" + "{2:value}", doc: "Names a value." },
  { label: "fn", insert: "fn($" + "{1:x}) {\n  $" + "{2:x}\n}", doc: "A function." },
  {
    label: "if",
    insert: "if ($" + "{1:condition}) {\n  $" + "{2}\n} else {\n  $" + "{3}\n}",
    doc: "One of two values.",
  },
  { label: "import", insert: "let $" + '{1:http} = import("$' + '{2:requests}")', doc: "A namespace under a name." },
];

function described(native: Native): Record<string, Json> {
  const { name, params, returns, doc, example } = native;
  const list = params.map((param) => ({
    name: param.name,
    type: param.type,
    optional: param.optional,
    rest: param.rest,
  }));
  return { name, signature: signature(native), params: list, returns, description: doc, example };
}

/** The language for editors, as `ScriptLanguageSpec` of the contract. */
export function scriptLanguage() {
  return {
    languageId: "agentscript",
    version: VERSION,
    keywords: KEYWORDS,
    operators: OPERATORS,
    reservedNames: RESERVED,
    specialIdentifiers: SPECIAL,
    builtins: [...builtins.values()].map(described),
    namespaces: [...namespaces.values()].map(({ name, doc, members }) => ({
      name,
      description: doc,
      functions: [...members.values()].filter((member) => member instanceof Native).map(described),
      constants: [...members].filter(([, member]) => !(member instanceof Native)).map(([constant]) => constant),
      ...(name === "test" ? { matchers } : {}),
    })),
    typeDefinitions: TYPES,
    typeSystem: {
      annotations: "optional",
      checked: "literals when validating, declared inputs when running",
      union: "a | b",
      optional: "a?",
      generic: "array<a>",
    },
    snippets: SNIPPETS,
  };
}

/** What calls to the outside look like is shown; what the others do can be tried. */
const list = (native: Native) =>
  `- \`${signature(native)}\`: ${native.doc}${native.gives === undefined ? ` Example: \`${native.example}\`` : ""}`;

/** The language as a prompt: enough to write correct scripts without ever having seen one. */
export function scriptLlmText(): string {
  const functions = [...namespaces.values()].map(({ name, doc, members }) => {
    const natives = [...members.values()].filter((member) => member instanceof Native);
    const constants = [...members].filter(([, member]) => !(member instanceof Native)).map(([constant]) => constant);
    const more = constants.length ? [`- constants: ${constants.map((one) => `\`${name}.${one}\``).join(", ")}`] : [];
    const expectations =
      name === "test" ? matchers.map((one) => `- \`expect(…).${one.name}(${one.params.join(", ")})\`: ${one.doc}`) : [];
    return [`### ${name}`, "", doc, "", ...natives.map(list), ...more, ...expectations].join("\n");
  });
  const shown = examples.map(({ title, source, input, gives }) =>
    [
      `${title}${input === undefined ? "" : ` With \`$\` = \`${JSON.stringify(input)}\`.`}`,
      "",
      "```",
      source,
      "```",
      `Result: \`${JSON.stringify(gives)}\``,
    ].join("\n"),
  );
  return [
    GUIDE,
    "## Built-in functions",
    [...builtins.values()].map(list).join("\n"),
    "## Namespaces",
    ...functions,
    "## Examples",
    ...shown,
  ].join("\n\n");
}

const GUIDE = `# The script language

A script is a sequence of expressions, one after another on lines of their own (or separated by \`;\`). The last one is
the result. There is no \`return\`, no loop, no assignment, no exception and no class. Values never change.

## Syntax

- Comments: \`// to the end of the line\`, \`/* nested /* comments */ */\`.
- Values: \`null\`, \`true\`, \`false\`, \`42\`, \`1.5\`, \`2e3\`, \`"text"\`, \`'text'\`, \`[1, 2]\`, \`{ name: "a", "other key": 2 }\`.
  Strings know \`\\n \\t \\r \\" \\' \\\\ \\u00e9 \\u{1f600}\`; any other backslash stays as it is. \`{ name }\` is \`{ name: name }\`.
- \`let x = e\` names a value in its block; \`let x: number = e\` also says its type. The same name can be given again.
- \`input name\` declares a field of the input and names it; \`input name: string = "x"\` has a type and a fallback, and
  \`input name?: string\` may be missing (null).
- \`import("array")\` is a namespace, \`import("script:key")\` the result of another script, run once: usually an object of
  functions. Name them with \`let\`. Namespaces can also be used without importing: \`array.map(…)\`.
- \`if (c) { a } else if (d) { b } else { e }\` is an expression; without \`else\` it is null otherwise. \`c ? a : b\` too.
  The braces hold a block: an object as its value has braces of its own, \`if (c) { { ok: true } }\`.
- \`fn(a, b) { … }\` is a function; the last expression in it is its value. Name it with \`let f = fn(…) { … }\`. It can
  call itself, and functions named further down. A missing argument is null, one too many is dropped.
- Operators from the strongest to the weakest: \`a.b a[i] f(x) r?\`, then \`! -\`, \`* / %\`, \`+ -\`, \`< <= > >=\`, \`== !=\`,
  \`&&\`, \`||\`, \`c ? a : b\`.
- A line that begins with \`(\`, \`[\`, \`{\` or \`-\` is a new expression. One that begins with \`.\` or any other operator goes
  on with the line before. Inside brackets line ends mean nothing.
- Reserved: ${RESERVED.map((name) => `\`${name}\``).join(", ")}.

## Meaning

- \`$\` is the input, \`env.KEY\` a runtime variable, \`viewer\` whoever the script runs as. Walking from them never fails:
  \`$.a.b.c\` is null when any part is missing.
- Elsewhere a missing field is null, an index outside of an array is null, and a field of null is an error that ends
  the script. \`a?.b\` is null when \`a\` is null.
- False are \`false\`, \`null\`, \`0\`, \`""\` and \`[]\`; an empty object is true. \`a || b\` is \`a\` when that is true, otherwise
  \`b\`; \`a && b\` is \`b\` when \`a\` is true.
- Types are for people and editors; at run time only a declared input is held to its own.
- \`c ? a : b\` and \`r?\` are told apart by what follows; put \`(r?)\` in brackets where both meet.
- \`==\` compares by content, arrays and objects too. \`<\` compares two numbers or two strings.
- \`+\` adds numbers; as soon as one side is a string it joins their texts. \`/\` divides exactly (\`7 / 2\` is 3.5).
  Division by zero is an error. Numbers are 64-bit floating point.
- What may fail gives a result: ok with a value, or an error with a message. \`unwrap(r)\` is the value or ends the
  script, \`unwrap(r, d)\` is the value or \`d\`, \`r?\` is the value or leaves the function (or the script) with the error. A
  field of an ok result is a field of its value, so \`http.get(url).status\` works; a field of an error ends the script.
- HTTP answers are ok results for every status: look at \`.status\`. Only when no answer came it is an error.
- A script whose last value is an error result has failed with its message. In JSON an ok result is its value.

## Limits

${LIMITS.time_ms / 1000} seconds, ${LIMITS.steps.toLocaleString("en")} steps (about 5 seconds of computing), 64 MB of memory, of which ${LIMITS.memory_bytes / 1024 / 1024} MB are for all that
is built, input and answers included, calls nested ${LIMITS.call_depth} deep, ${LIMITS.source_bytes / 1024} KB of source of at most ${LIMITS.source_tokens.toLocaleString("en")} words, values and signs, ${LIMITS.output_bytes / 1_000_000} MB of output,
${LIMITS.calls} outbound calls of at most ${LIMITS.call_ms / 1000} seconds and ${LIMITS.call_bytes / 1_000_000} MB each, ${LIMITS.imports} imported scripts. Every ${LIMITS.steps_at_once.toLocaleString("en")} steps (4 ms) others
have their turn, at the next call of a function; one operation that takes ${LIMITS.steps_unbroken.toLocaleString("en")} more by itself ends the script.
Build long texts with \`array.join\`, not with \`+\` in a \`reduce\`.`;
