/** Holds each answer to /openapi.json, and those of tier-1 operations to the public contract's own schemas. */
import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { shows } from "./canary.ts";

type Answered = { status: number; headers: Headers; body: unknown; text: string };
type Responses = Record<string, { content?: Record<string, { schema: object }> }>;
type Document = { paths: Record<string, Record<string, { responses: Responses }>> };

const contractDir = process.env.CONTRACT_DIR ?? resolve(import.meta.dirname, "../../../shared/contract");
/** Whether the contract's data lies beside the checkout; the document is checked without it. */
export const hasContract = existsSync(contractDir);
export const readContract = (name: string) => JSON.parse(readFileSync(resolve(contractDir, name), "utf8"));

const newAjv = () => addFormats.default(new Ajv2020({ strict: false, allowUnionTypes: true }));
// A test may put its own in the place of fetch.
const { fetch } = globalThis;
const documents = new Map<string, ReturnType<typeof fetchDocument>>();

async function fetchDocument(base: string) {
  const document = (await (await fetch(`${base}/openapi.json`)).json()) as Document;
  const ajv = newAjv();
  ajv.addSchema({ $id: "openapi", ...document });
  return { document, ajv, templateOf: templatesOf(Object.keys(document.paths)) };
}

/** The document of a system, fetched once a test file. */
export function readDocument(base: string) {
  if (!documents.has(base)) documents.set(base, fetchDocument(base));
  return documents.get(base)!;
}

/**
 * Finds the template that an address belongs to: a literal segment wins over a parameter. The templates are taken
 * apart once, since a walk asks a hundred thousand times.
 */
function templatesOf(paths: string[]): (path: string) => string | undefined {
  const templates = paths
    .map((template) => ({ template, parts: template.split("/") }))
    .sort((a, b) => a.template.split("{").length - b.template.split("{").length);
  const byLength = Map.groupBy(templates, ({ parts }) => parts.length);
  return (path) => {
    const wanted = path.split("?")[0]!.split("/");
    const fits = ({ parts }: { parts: string[] }) =>
      parts.every((part, i) => part === wanted[i] || (part.startsWith("{") && wanted[i] !== ""));
    return byLength.get(wanted.length)?.find(fits)?.template;
  };
}

const pointer = (...parts: string[]) => parts.map((part) => part.replaceAll("~", "~0").replaceAll("/", "~1")).join("/");

type Operation = { method: string; path: string; tier: number; success: number; response: { schema: string | null } };
const contract = hasContract ? readOperations() : null;

function readOperations() {
  const byMethod = Map.groupBy(readContract("operations.json") as Operation[], ({ method }) => method);
  const read = (operations: Operation[]) => ({
    byPath: new Map(operations.map((operation) => [operation.path, operation])),
    templateOf: templatesOf(operations.map(({ path }) => path)),
  });
  return {
    methods: new Map([...byMethod].map(([method, operations]) => [method, read(operations)])),
    ajv: newAjv().addSchema(readContract("schemas.json")),
  };
}

/** Throws where the answer is one that the document or the contract does not describe, or shows a secret. */
export async function checkAnswer(base: string, method: string, path: string, answer: Answered): Promise<void> {
  if (shows(JSON.stringify([...answer.headers]) + answer.text)) throw new Error(`${method} ${path}: shows a secret`);
  const { document, ajv, templateOf } = await readDocument(base);
  const template = templateOf(path);
  const operation = template && document.paths[template]?.[method.toLowerCase()];
  const what = `${method} ${path} → ${answer.status}`;
  if (answer.status === 500) throw new Error(`${what}: a bug, see the log`);
  if (!operation) {
    if (![404, 405, 204, 413].includes(answer.status)) throw new Error(`${what}: not in the document`);
    return;
  }
  const response = operation.responses[answer.status];
  if (!response) throw new Error(`${what}: the document has no such status: ${answer.text}`);
  if (!response.content) {
    if (answer.text !== "") throw new Error(`${what}: the document says there is no body`);
    return;
  }
  // Bytes, of whatever type.
  if (response.content["*/*"]) return;
  const type = (answer.headers.get("Content-Type") ?? "").split(";")[0]!;
  const described = response.content[type]?.schema as { $ref?: string } | undefined;
  if (!described) throw new Error(`${what}: the document has no ${type}`);
  // What all refusals share is compiled once, not once for each of them.
  const at = described.$ref
    ? `openapi${described.$ref}`
    : pointer(
        ...["openapi#", "paths", template, method.toLowerCase()],
        ...["responses", String(answer.status), "content", type, "schema"],
      );
  hold(ajv, at, type.startsWith("text/") ? answer.text : answer.body, what);
  checkContract(what, method, path, answer);
}

/** Throws unless the value is as the schema says. `getSchema` keeps what it compiled; a `$ref` given anew does not. */
function hold(ajv: ReturnType<typeof newAjv>, at: string, value: unknown, what: string) {
  const fits = ajv.getSchema(at);
  if (!fits) throw new Error(`${what}: there is no schema ${at}`);
  if (!fits(value)) throw new Error(`${what}: ${ajv.errorsText(fits.errors)}: ${JSON.stringify(value)}`);
}

function checkContract(what: string, method: string, path: string, { status, body }: Answered) {
  if (!contract || status >= 300) return;
  const { byPath, templateOf } = contract.methods.get(method)!;
  const operation = byPath.get(templateOf(path) ?? "");
  if (operation?.tier !== 1) return;
  if (operation.success !== status) throw new Error(`${what}: the contract answers ${operation.success}`);
  const { schema } = operation.response;
  if (schema) hold(contract.ajv, `contract-schemas${schema}`, body, `${what}: contract`);
}
