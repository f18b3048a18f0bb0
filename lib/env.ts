/**
 * What a Worker is given, in the types that wrangler makes of wrangler.toml (`npm run types`), where each meaning
 * stands. The single Worker has what every other one has.
 */
export type Bindings = Cloudflare.AllEnv & Locally & Models & Telemetry & Computers & Mailing & Sso;

/** Which models there are, and with whose keys: none is required. docs/configuration.md says what each means. */
export const MODEL_VARIABLES = [
  "MODEL_BASE_URL",
  "MODEL_API_KEY",
  "OPENAI_API_KEY",
  "ANTHROPIC_API_KEY",
  "GOOGLE_GENERATIVE_AI_API_KEY",
  "DEFAULT_MODEL",
  "DEFAULT_IMAGE_MODEL",
  "DEFAULT_EMBEDDING_MODEL",
  "MODELS",
  "IMAGE_MODELS",
] as const;
export type Models = Partial<Record<(typeof MODEL_VARIABLES)[number], string>>;

/** Where spans of sessions go, and what is said there of who sends them: for `objects`. */
export const TELEMETRY_VARIABLES = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS"] as const;
export type Telemetry = Partial<Record<(typeof TELEMETRY_VARIABLES)[number], string>>;

/** Who makes computers: for those Workers that ask for them. */
export const COMPUTER_VARIABLES = ["SPRITES_TOKEN"] as const;
export type Computers = Partial<Record<(typeof COMPUTER_VARIABLES)[number], string>>;

/** Who carries mail, and whom it comes from: for those Workers that send some. `cloudflare` is a binding, EMAIL. */
export const MAIL_VARIABLES = ["MAIL_PROVIDER", "MAIL_API_KEY", "MAIL_FROM"] as const;
export type Mailing = Partial<Record<(typeof MAIL_VARIABLES)[number], string>> & { EMAIL?: SendEmail };
/** The keys of the SAML SPs, a JWKS of private RSA keys with certificates (`npm run keys`): for `sso`. */
export const SSO_VARIABLES = ["SAML_KEYS"] as const;
export type Sso = Partial<Record<(typeof SSO_VARIABLES)[number], string>>;
export const ssoOf = (env: Sso): Sso => only(SSO_VARIABLES, env);

/** Of an environment what is about models, and nothing else: it holds other secrets, too. */
export const modelsOf = (env: Models): Models => only(MODEL_VARIABLES, env);
/** The same of telemetry. */
export const telemetryOf = (env: Telemetry): Telemetry => only(TELEMETRY_VARIABLES, env);

/** The same of computers. */
export const computersOf = (env: Computers): Computers => only(COMPUTER_VARIABLES, env);

const only = <N extends string>(names: readonly N[], env: Partial<Record<N, string>>) =>
  Object.fromEntries(names.flatMap((name) => (env[name] ? [[name, env[name]]] : []))) as Partial<Record<N, string>>;

/** What only workerd on a machine of one's own gives: see lib/local/runtime.ts. */
type Locally = {
  /** The way out for what strangers name, as scripts do: refuses what resolves to anything but a public address. On Cloudflare every fetch does. */
  EGRESS?: Fetcher;
  /** The way to the endpoint at DATABASE_URL, past a Worker through which Miniflare sends every other fetch. */
  DATABASE?: Fetcher;
  /** The computers of this machine (lib/local/computers.ts): for those Workers that ask for computers. */
  COMPUTERS?: Fetcher;
  /** The mailbox of this machine (lib/local/mailbox.ts), in the place of whoever carries mail. */
  MAILBOX?: Fetcher;
  /** Whom all requests come from: who asks this machine is on it, whatever a header says. */
  CLIENT_IP?: string;
  /** Opens this machine to scripts, for development and tests: the host of the database behind DATABASE_URL. */
  ALLOW_LOOPBACK?: string;
};

/** A comma-separated list of a binding, newest first. */
export const listOf = (text: string): string[] => text.split(",").map((item) => item.trim());
