/** Every Worker of wrangler.toml in Miniflare, as Cloudflare would dispatch them. The only file that knows its API. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join, resolve } from "node:path";
import { promisify } from "node:util";
import { Cron } from "croner";
import type { BuildOptions, BuildResult, PluginBuild } from "esbuild";
import type { Computers, Models, Sso, Telemetry } from "../env.ts";
import { cached } from "./cache.ts";
import { serveComputers } from "./computers.ts";
import { DOCUMENT, type Group, ROOT, readGroups } from "./groups.ts";
import { openMailbox } from "./mailbox.ts";

// Required and not imported: Node would parse all of it twice, to learn that it is CommonJS.
const {
  convertV4MiniflareOptions,
  Miniflare,
  Response: MiniflareResponse,
} = createRequire(import.meta.url)("miniflare") as typeof import("miniflare");

/** What a Worker is given as text. */
export type Secrets = Omit<
  Cloudflare.AllEnv,
  | "SESSIONS"
  | "RUNS"
  | "DISPATCHER"
  | "SCHEDULER"
  | "QUEUES"
  | "WEBHOOKS"
  | "HEALTH"
  | "COMPUTE"
  | `PER_MINUTE_${number}`
>;
/** Those that ask models: no other Worker has their keys. */
const ASKING_MODELS = ["ai", "objects", "all"];
/** Those that know what sessions do. */
const TELLING_SPANS = ["objects", "all"];
/** Those that ask for computers: as requests want it, and as the sweep finds it undone. */
const ASKING_COMPUTERS = ["agents", "root", "all"];
/** Those that send mail. */
const SENDING_MAIL = ["auth", "pages", "developer", "people", "root", "all"];
/** Those that speak SAML. */
const SPEAKING_SAML = ["sso", "all"];
export type RuntimeOptions = {
  port: number;
  /** Each Worker is given those that wrangler.toml requires for it, and ISSUERS. */
  secrets: Secrets;
  /** Which models there are, and their keys: for the Workers that ask them. */
  models?: Models;
  /** Where spans go, for the Workers that have some. */
  telemetry?: Telemetry;
  /** Who makes computers, for the Workers that ask for some. */
  computers?: Computers;
  /** The keys of the SAML SPs, for the Worker that signs people in. */
  sso?: Sso;
  /** Where the computers of this machine have their homes; without it there are none. */
  computersDir?: string;
  /** Where mail is kept, in the place of being sent; without it none is. */
  mailDir?: string;
  /** Whether what is asked too often in a minute is refused: tests and benches ask more. */
  limited?: boolean;
  /** Groups to run; without it all but `all`. */
  groups?: string[];
  /** Where Durable Objects keep their storage; nowhere, if absent. */
  dataDir?: string;
  /** Modules to bundle in the place of others: the tests take a wall away with it. */
  alias?: Record<string, string>;
  /** Opens a socket of its own to each Worker, past the router: for measuring. */
  direct?: boolean;
  /** Opens this machine to scripts, by http: for development and tests. The host of the database itself. */
  allowLoopback?: string;
  /** Answers what scripts fetch, in the place of the internet: for tests. */
  outbound?: (request: Request) => Promise<Response> | Response;
  /** Rebuilds on change and tells how long it took. */
  onReload?: (ms: number) => void;
};
export type Runtime = {
  url: URL;
  directUrl(group: string): Promise<URL>;
  /** What a Worker is given. */
  bindings(group: string): Promise<Record<string, unknown>>;
  /** Runs what the crons would, now. */
  fireCrons(): Promise<void>;
  close(): Promise<void>;
};

type Scheduled = { scheduled(event: { cron: string }): Promise<unknown> };

/** All groups in one go, which reads what they share once. */
export const bundling = (groups: [string, Group][], alias: Record<string, string> = {}) =>
  ({
    absWorkingDir: ROOT,
    entryPoints: Object.fromEntries(groups.map(([group, { main }]) => [group, main])),
    outdir: ROOT,
    bundle: true,
    write: false,
    format: "esm",
    target: "es2024",
    // Half of the code is comments of others. Names stay, for the stack of an error.
    minifyWhitespace: true,
    lineLimit: 200,
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*", "node:*"],
    logLevel: "warning",
    plugins: Object.entries(alias).map(([from, to]) => ({
      name: `alias ${from}`,
      setup: ({ onResolve }: PluginBuild) => onResolve({ filter: new RegExp(`/${from}$`) }, () => ({ path: to })),
    })),
  }) satisfies BuildOptions;

/** The files of our own code, and folders. */
const files = () =>
  ["functions", "lib"].flatMap((dir) =>
    readdirSync(join(ROOT, dir), { recursive: true, encoding: "utf8" }).map((name) => join(dir, name)),
  );

/** When anything that the document is made of was last changed. */
const lastChange = (): number =>
  Math.max(...[...files(), "package.json"].map((file) => statSync(join(ROOT, file)).mtimeMs));

/** The code of each group's Worker, kept until a file of ours, a package or what takes its place is another one. */
async function buildWorkers(groups: [string, Group][], { alias = {} }: RuntimeOptions) {
  const options = bundling(groups, alias);
  const which = JSON.stringify([options, alias]);
  const own = files().filter((file) => file.endsWith(".ts"));
  const inputs = [...own, "package-lock.json", DOCUMENT, ...Object.values(alias)];
  const read = inputs.map((file) => contentOf(resolve(ROOT, file)));
  const name = `workers.${createHash("sha256").update(which).digest("hex").slice(0, 12)}`;
  const kept = await cached(name, [which, ...inputs, ...read], async () => {
    const code = codeOf(await (await import("esbuild")).build(options));
    return Buffer.from(JSON.stringify([...code]));
  });
  return new Map<string, string>(JSON.parse(Buffer.from(kept).toString()));
}
const contentOf = (path: string) => (existsSync(path) ? readFileSync(path, "utf8") : "");
const codeOf = ({ outputFiles = [] }: BuildResult) =>
  new Map(outputFiles.map(({ path, text }) => [basename(path, ".js"), text]));

/** Makes the document anew if a file is newer, in a process that reads the files as they are now. */
export async function makeDocument(): Promise<void> {
  const made = statSync(DOCUMENT, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (made <= lastChange()) await promisify(execFile)(process.execPath, [join(ROOT, "lib/local/document.ts")]);
}

/** What a Worker reaches of others: objects by the Worker that has their class, and Workers themselves. */
type Reaching = {
  durableObjects?: Record<string, { scriptName?: string }>;
  serviceBindings?: Record<string, { name: string }>;
};
const scriptsOf = ({ durableObjects = {}, serviceBindings = {} }: Reaching) => [
  ...Object.values(durableObjects).flatMap(({ scriptName }) => scriptName ?? []),
  ...Object.values(serviceBindings).map(({ name }) => name),
];

/** Starts the Workers on a loopback port. Crons fire by the minute, as Cloudflare's do. */
export async function startRuntime(options: RuntimeOptions): Promise<Runtime> {
  const { groups: wanted } = options;
  const isWanted = (group: string) => (wanted ? wanted.includes(group) : group !== "all");
  const found = await readGroups();
  // Who reaches an object names the Worker that has its class.
  const reached = new Set(found.flatMap(([group, { name }]) => (isWanted(group) ? [name] : [])));
  for (const name of reached) {
    for (const one of scriptsOf(found.find(([, group]) => group.name === name)![1].options)) reached.add(one);
  }
  const groups = found.filter(([, { name }]) => reached.has(name));
  if (groups.some(([group]) => group === "root" || group === "all")) await makeDocument();
  let code = await buildWorkers(groups, options);
  const computers = options.computersDir === undefined ? null : serveComputers(options.computersDir);
  const mailbox = options.mailDir === undefined ? null : openMailbox(options.mailDir);
  const workers = () =>
    groups.map(([group, { name, routes, vars, secrets, options: worker }]) => {
      const given = ["ISSUERS", ...secrets.required].map((key) => [key, options.secrets[key as keyof Secrets]]);
      if (ASKING_MODELS.includes(group)) given.push(...Object.entries(options.models ?? {}));
      if (TELLING_SPANS.includes(group)) given.push(...Object.entries(options.telemetry ?? {}));
      if (ASKING_COMPUTERS.includes(group)) given.push(...Object.entries(options.computers ?? {}));
      if (SPEAKING_SAML.includes(group)) given.push(...Object.entries(options.sso ?? {}));
      if (options.allowLoopback !== undefined) given.push(["ALLOW_LOOPBACK", options.allowLoopback]);
      given.push(["CLIENT_IP", "127.0.0.1"]);
      return {
        ...worker,
        ...(!options.limited && { ratelimits: {} }),
        name,
        modules: [{ type: "ESModule" as const, path: `${group}.mjs`, contents: code.get(group)! }],
        routes: (routes ?? []).map(({ pattern }) => pattern.replace(/^[^/]+/, "*")),
        bindings: { ...vars, ...Object.fromEntries(given) },
        serviceBindings: {
          ...(worker.serviceBindings as Reaching["serviceBindings"]),
          ...{ EGRESS: egress(options), ...database(options) },
          ...(computers && ASKING_COMPUTERS.includes(group) && { COMPUTERS: answering(computers) }),
          ...(mailbox && SENDING_MAIL.includes(group) && { MAILBOX: taking(mailbox) }),
        },
        ...(options.direct && { unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }] }),
      };
    });
  const settings = () => {
    const v4 = { host: "127.0.0.1", port: options.port, cf: false as const, workers: workers() };
    return Object.assign(convertV4MiniflareOptions(v4 as never), {
      telemetry: { enabled: false },
      enableDevRegistry: false,
      ...(options.dataDir && { resourcePersistencePath: options.dataDir }),
    });
  };

  const miniflare = new Miniflare(settings());
  const url = await miniflare.ready;
  const keep = (result: BuildResult) => {
    code = codeOf(result);
  };
  const watching =
    options.onReload && (await watch(groups, options.onReload, keep, () => miniflare.setOptions(settings())));
  const running = new Set<Promise<void>>();
  const fire = (name: string, cron: string) => {
    const run = (async () => {
      const worker = (await miniflare.getWorker(name)) as unknown as Scheduled;
      await worker.scheduled({ cron });
    })()
      .catch((error) => console.error(`cron of ${name}:`, error))
      .finally(() => running.delete(run));
    running.add(run);
    return run;
  };
  const scheduled = groups.flatMap(([, { name, triggers }]) => (triggers?.crons ?? []).map((cron) => ({ name, cron })));
  const crons = scheduled.map(({ name, cron }) => new Cron(cron, { unref: true }, () => fire(name, cron)));
  const nameOf = (wanted: string) => groups.find(([group]) => group === wanted)![1].name;
  return {
    url,
    directUrl: async (group) => miniflare.unsafeGetDirectURL(nameOf(group)),
    bindings: async (group) => miniflare.getBindings(nameOf(group)),
    fireCrons: async () => {
      await Promise.all(scheduled.map(({ name, cron }) => fire(name, cron)));
    },
    close: async () => {
      for (const cron of crons) cron.stop();
      await Promise.all(running);
      computers?.close();
      await watching?.dispose();
      await miniflare.dispose();
    },
  };
}

/** The way out for scripts. By address, after a name has been resolved: no name leads to this machine or its network. */
const egress = ({ outbound, allowLoopback }: RuntimeOptions) =>
  outbound
    ? outside(outbound)
    : {
        network: {
          allow: ["public", ...(allowLoopback === undefined ? [] : ["local"])],
          tlsOptions: { trustBrowserCas: true },
        },
      };

/** The way to the local endpoint, past the Worker of its own that Miniflare puts before every fetch. */
function database({ secrets: { DATABASE_URL } }: RuntimeOptions) {
  const [, address] = DATABASE_URL?.match(/@(127\.0\.0\.1:\d+)\//) ?? [];
  return address && { DATABASE: { external: { address, http: {} } } };
}

/** Miniflare has a Request and a Response of its own. */
const outside = (answer: NonNullable<RuntimeOptions["outbound"]>) => async (asked: Request) => {
  const { method, url } = asked;
  const body = ["GET", "HEAD"].includes(method) ? null : await asked.arrayBuffer();
  const answered = await answer(new Request(url, { method, headers: [...asked.headers], body }));
  return new MiniflareResponse(await answered.arrayBuffer(), {
    status: answered.status,
    headers: [...answered.headers],
  });
};

const answering = (computers: ReturnType<typeof serveComputers>) => async (asked: Request) => {
  const { status, body } = await computers.answer(new URL(asked.url).pathname.slice(1), await asked.text());
  return new MiniflareResponse(body, { status });
};

const taking = (keep: ReturnType<typeof openMailbox>) => async (asked: Request) => {
  keep(JSON.parse(await asked.text()));
  return new MiniflareResponse(null, { status: 204 });
};

/** Rebuilds the Workers when a file of theirs changes, the document among them; what comes together reloads once. */
async function watch(
  groups: [string, Group][],
  onReload: (ms: number) => void,
  keep: (result: BuildResult) => void,
  reload: () => Promise<void>,
) {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let first = true;
  const changed = (result: BuildResult) => {
    if (first || result.errors.length) {
      first = false;
      return;
    }
    keep(result);
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const start = performance.now();
      await reload();
      onReload(performance.now() - start);
      // If it is another one now, that is a file which has changed.
      await makeDocument().catch((error) => console.error(error.stderr));
    }, 20);
  };
  const reloading = { name: "reload", setup: ({ onEnd }: PluginBuild) => onEnd(changed) };
  const { context } = await import("esbuild");
  const watching = await context({ ...bundling(groups), plugins: [reloading] });
  await watching.watch();
  return watching;
}
