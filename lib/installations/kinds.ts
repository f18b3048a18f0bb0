/**
 * The kinds of installation: what each connects, and what it takes, in JSON Schema. The catalogue shows these schemas as
 * they are, and they are what a config and a payload are held to. Names that they don't know are kept.
 */
import type { FieldError } from "../errors.ts";

type Field =
  | { type: "string"; minLength: number; maxLength: number; pattern?: string }
  | { type: "array"; maxItems: number; items: Field };
export type Shape = { type: "object"; properties: Record<string, Field>; required?: readonly string[] };

const url: Field = { type: "string", minLength: 1, maxLength: 2048, pattern: "^https?://[^\\s]+$" };
const name: Field = { type: "string", minLength: 1, maxLength: 200 };
const repository: Field = { type: "string", minLength: 3, maxLength: 200, pattern: "^[^\\s/]+/[^\\s/]+$" };
const some = (items: Field): Field => ({ type: "array", maxItems: 20, items });
const shape = (properties: Record<string, Field>, required: readonly string[] = []): Shape => ({
  ...{ type: "object", properties },
  ...(required.length && { required }),
});
const free = shape({});

/** What a source is made of, by its type. */
export const sourceTypes = {
  "knowledge/documents": free,
  "file/document": shape({ file: name }, ["file"]),
  "web/link": shape({ url }, ["url"]),
  "scrape/site": shape({ url }, ["url"]),
} satisfies Record<string, Shape>;
export type SourceType = keyof typeof sourceTypes;

type KindFacts = {
  label: string;
  category: "memory" | "archastro" | "integration" | "enablement" | "web";
  description: string;
  /** Whose service it connects; such a kind needs an integration before it is active. */
  provider: string | null;
  config: Shape;
  /** The types of source that it takes. */
  sources: readonly SourceType[];
};

const kind = (
  category: KindFacts["category"],
  label: string,
  description: string,
  { provider = null, config = free, sources = [] }: Partial<Pick<KindFacts, "provider" | "config" | "sources">> = {},
): KindFacts => ({ category, label, description, provider, config, sources });

const github = { provider: "github", config: shape({ repositories: some(repository) }) };
const slack = { provider: "slack", config: shape({ channels: some(name) }) };

export const installationKinds: Record<string, KindFacts> = {
  "archastro/files": kind("archastro", "Files", "Gives the agent files to read.", { sources: ["file/document"] }),
  "archastro/knowledge": kind("archastro", "Knowledge", "Gives the agent documents, links and sites to search.", {
    sources: ["knowledge/documents", "file/document", "web/link", "scrape/site"],
  }),
  "archastro/thread": kind("archastro", "Threads", "Lets the agent take part in threads."),
  "enablement/github_app": kind("enablement", "GitHub App", "Brings a GitHub App's events to the agent.", github),
  "enablement/slack_bot": kind("enablement", "Slack bot", "Lets people speak with the agent in Slack.", slack),
  "integration/github": kind("integration", "GitHub", "Lets the agent work in GitHub.", github),
  "integration/gmail": kind("integration", "Gmail", "Lets the agent read and write mail in Gmail.", {
    provider: "gmail",
    config: shape({ labels: some(name) }),
  }),
  "integration/outlook": kind("integration", "Outlook", "Lets the agent read and write mail in Outlook.", {
    provider: "outlook",
    config: shape({ folders: some(name) }),
  }),
  "integration/slack": kind("integration", "Slack", "Lets the agent read and write in Slack.", slack),
  "memory/long-term": kind("memory", "Long-term memory", "Lets the agent remember from one session to the next."),
  "web/site": kind("web", "Website", "Gives the agent a website to read.", {
    config: shape({ url }),
    sources: ["web/link", "scrape/site"],
  }),
};

/** The kinds that need an integration before they are active. */
export const needingIntegration = Object.keys(installationKinds).filter((name) => installationKinds[name]!.provider);
/** The kinds that take sources of a type. */
export const kindsTaking = (type: SourceType): string[] =>
  Object.keys(installationKinds).filter((name) => installationKinds[name]!.sources.includes(type));

const tooMany = (most: number, things: string) => `must have at most ${most} ${things}`;

function faultOf(field: Field, value: unknown): string | null {
  if (field.type === "array") {
    if (!Array.isArray(value)) return "must be a list";
    if (value.length > field.maxItems) return tooMany(field.maxItems, "items");
    return value.map((item) => faultOf(field.items, item)).find((fault) => fault !== null) ?? null;
  }
  if (typeof value !== "string") return "must be a string";
  const length = [...value].length;
  if (length > field.maxLength) return tooMany(field.maxLength, "characters");
  const isRight = length >= field.minLength && (!field.pattern || new RegExp(field.pattern, "u").test(value));
  return isRight ? null : "is not of the right form";
}

/** What is wrong with an object of this shape, each fault with its field, which begins with `at`. */
export const faultsOf = (shape: Shape, value: Record<string, unknown>, at: string): FieldError[] =>
  Object.entries(shape.properties).flatMap(([name, field]) => {
    if (!Object.hasOwn(value, name)) {
      return shape.required?.includes(name) ? [{ field: `${at}.${name}`, message: "is required" }] : [];
    }
    const message = faultOf(field, value[name]);
    return message ? [{ field: `${at}.${name}`, message }] : [];
  });

/** The catalogue. */
export const catalogue = Object.entries(installationKinds).map(([kind, facts]) => ({
  kind,
  label: facts.label,
  category: facts.category,
  description: facts.description,
  provider: facts.provider,
  requires_integration: facts.provider !== null,
  accepts_sources: facts.sources.length > 0,
  config_schema: facts.config as Record<string, unknown>,
}));
