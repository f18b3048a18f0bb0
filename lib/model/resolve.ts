/** From a model's name to who is asked, with whose credentials, and by which way out. */
import { notConfigured } from "./errors.ts";

/** Environment variables: the installation's secrets, or an agent's own. Empty is unset. */
export type Environment = Readonly<Record<string, string | undefined>>;

export type Kind = "chat" | "image" | "embedding";

/** Holds a key: never to be written into a journal, log or answer. */
export type Model = {
  /** As it was asked for: `openai/gpt-5`. */
  name: string;
  provider: "scripted" | "compatible" | "openai" | "anthropic" | "google";
  /** As the provider calls it. */
  id: string;
  base_url: string;
  key: string | null;
  /** Whether what is sent is an agent's own doing, and so goes past the guard of all egress. */
  guarded: boolean;
};

const PROVIDERS = {
  openai: { secret: "OPENAI_API_KEY", base_url: "https://api.openai.com/v1" },
  anthropic: { secret: "ANTHROPIC_API_KEY", base_url: "https://api.anthropic.com/v1" },
  google: { secret: "GOOGLE_GENERATIVE_AI_API_KEY", base_url: "https://generativelanguage.googleapis.com/v1beta" },
} as const;

const DEFAULTS = {
  chat: ["DEFAULT_MODEL", "MODELS"],
  image: ["DEFAULT_IMAGE_MODEL", "IMAGE_MODELS"],
  embedding: ["DEFAULT_EMBEDDING_MODEL", ""],
} as const;

const get = (env: Environment, name: string) => env[name]?.trim() || null;

/** Of a key that no header can carry a platform's error would tell more than it should. */
function keyOf(env: Environment, name: string): string | null {
  const key = get(env, name);
  if (key && !/^[\x21-\x7e]+$/.test(key))
    throw notConfigured(`${name} is not a key: it has blanks or letters beyond ASCII.`);
  return key;
}

/** What no error may tell: the key, and where an operator's own models are. */
export const secretsOf = ({ provider, base_url, key, guarded }: Model): string[] => [
  ...(key ? [key] : []),
  ...(provider === "compatible" && !guarded ? [base_url, new URL(base_url).host, new URL(base_url).hostname] : []),
];

/**
 * The model of a name, or of none: the installation's default of its kind, and for chat `scripted/echo`. Throws
 * `model_not_configured`, saying what to set, where the name leads nowhere; nothing else is ever tried in its place.
 */
export function resolveModel(
  asked: string | null | undefined,
  env: Environment,
  { agent = {}, kind = "chat" }: { agent?: Environment; kind?: Kind } = {},
): Model {
  const name = asked?.trim() || listModels(env, kind)[0];
  if (!name) throw notConfigured(`No model is named, and ${DEFAULTS[kind][0]} is not set.`);
  const [, provider, id] = /^([^/]*)\/(.*)$/s.exec(name) ?? [];
  // Some providers' addresses are made of it: it must not lead elsewhere on their host, where the key is good, too.
  if (!provider || !id || id.length > 200 || !/^[\w.:@-]+(\/[\w.:@-]+)*$/.test(id) || /(^|\/)\.\.?(\/|$)/.test(id)) {
    throw notConfigured(
      "A model is named as provider/model: compatible/…, openai/…, anthropic/…, google/… or scripted/….",
    );
  }
  if (provider === "scripted") return { name, provider, id, base_url: "", key: null, guarded: true };
  if (provider === "compatible") return { name, provider, id, ...compatible(env, agent) };
  if (!Object.hasOwn(PROVIDERS, provider)) {
    throw notConfigured(
      `There is no provider ${provider.slice(0, 50)}: use compatible/…, openai/…, anthropic/…, google/… or scripted/….`,
    );
  }
  const known = provider as keyof typeof PROVIDERS;
  const { secret, base_url } = PROVIDERS[known];
  const own = keyOf(agent, secret);
  const key = own ?? keyOf(env, secret);
  if (!key)
    throw notConfigured(`There are no credentials for ${known}/…: set ${secret}, for the installation or the agent.`);
  return { name, provider: known, id, base_url, key, guarded: own !== null };
}

/** An address of the agent's own never meets a key of the installation's. */
function compatible(env: Environment, agent: Environment) {
  const own = get(agent, "MODEL_BASE_URL");
  const base_url = own ?? get(env, "MODEL_BASE_URL");
  if (!base_url) {
    throw notConfigured("There is no address for compatible/…: set MODEL_BASE_URL, for the installation or the agent.");
  }
  const url = URL.canParse(base_url) ? new URL(base_url) : null;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw notConfigured("MODEL_BASE_URL is not an http or https address without user, query and fragment.");
  }
  const key = keyOf(agent, "MODEL_API_KEY") ?? (own ? null : keyOf(env, "MODEL_API_KEY"));
  return { base_url, key, guarded: own !== null };
}

/** The names that the installation shows, the default first. Without any setting chat has `scripted/echo`. */
export function listModels(env: Environment, kind: Kind): string[] {
  const [first, list] = DEFAULTS[kind];
  const names = [env[first], ...(env[list] ?? "").split(",")].map((name) => name?.trim() ?? "").filter(Boolean);
  if (kind === "chat" && names.length === 0) names.push("scripted/echo");
  return [...new Set(names)];
}

/** The variable without which no model of this name can be asked; null where none is known to be. */
export function secretFor(name: string): string | null {
  const [provider = ""] = name.split("/");
  if (provider === "compatible") return "MODEL_BASE_URL";
  return Object.hasOwn(PROVIDERS, provider) ? PROVIDERS[provider as keyof typeof PROVIDERS].secret : null;
}
