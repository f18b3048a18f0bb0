/** Every Worker of wrangler.toml in Miniflare, as Cloudflare would dispatch them. The only file that knows its API. */
import { resolve } from "node:path";
import { Cron } from "croner";
import { type BuildOptions, type BuildResult, build, context } from "esbuild";
import { convertV4MiniflareOptions, Miniflare, Response as MiniflareResponse } from "miniflare";
import { experimental_readRawConfig, unstable_getMiniflareWorkerOptions } from "wrangler";
import type { Bindings } from "../env.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const CONFIG = resolve(ROOT, "wrangler.toml");
/** Those that make tokens hold the private keys; the others verify with the public set. */
const MINTS = new Set(["developer", "auth", "people", "all"]);

export type Secrets = Bindings & { PUBLIC_JWKS: string };
export type RuntimeOptions = {
  port: number;
  secrets: Secrets;
  /** Groups to run; without it all but `all`. */
  groups?: string[];
  /** Where Durable Objects keep their storage; nowhere, if absent. */
  dataDir?: string;
  /** Modules to bundle in the place of others: the tests take a wall away with it. */
  alias?: Record<string, string>;
  /** Opens a socket of its own to each Worker, past the router: for measuring. */
  direct?: boolean;
  /** Answers what the Workers fetch from outside this machine, in the place of the internet: for tests. */
  outbound?: (request: Request) => Promise<Response> | Response;
  /** Rebuilds on change and tells how long it took. */
  onReload?: (ms: number) => void;
};
export type Runtime = {
  url: URL;
  directUrl(group: string): Promise<URL>;
  /** Runs what the crons would, now. */
  fireCrons(): Promise<void>;
  close(): Promise<void>;
};

type Env = { name: string; main: string; routes?: ({ pattern: string } | string)[]; triggers?: { crons?: string[] } };
/** What wrangler reads of an environment, in the shape that convertV4MiniflareOptions takes. */
type WorkerOptions = { modulesRules?: unknown; bindings?: Record<string, unknown> };
type Scheduled = { scheduled(event: { cron: string }): Promise<unknown> };
type RawConfig = { rawConfig: { env?: Record<string, Env> } };

const readGroups = (wanted?: string[]) => {
  const { env = {} } = (experimental_readRawConfig({ config: CONFIG }) as unknown as RawConfig).rawConfig;
  return Object.entries(env).filter(([group]) => (wanted ? wanted.includes(group) : group !== "all"));
};

const bundling = (main: string, alias?: Record<string, string>): BuildOptions => ({
  absWorkingDir: ROOT,
  entryPoints: [main],
  bundle: true,
  write: false,
  format: "esm",
  target: "es2024",
  keepNames: true,
  conditions: ["workerd", "worker", "browser"],
  external: ["cloudflare:*", "node:*"],
  logLevel: "warning",
  plugins: Object.entries(alias ?? {}).map(([from, to]) => ({
    name: `alias ${from}`,
    setup: ({ onResolve }) => onResolve({ filter: new RegExp(`/${from}$`) }, () => ({ path: to })),
  })),
});

/** Starts the Workers on a loopback port. Crons fire by the minute, as Cloudflare's do. */
export async function startRuntime(options: RuntimeOptions): Promise<Runtime> {
  const groups = readGroups(options.groups);
  const code = new Map<string, string>();
  const keep = (group: string) => (result: BuildResult) => {
    const [file] = result.outputFiles ?? [];
    if (file) code.set(group, file.text);
  };
  const workers = () =>
    groups.map(([group, { name, routes }]) => {
      const { modulesRules: _, ...worker } = unstable_getMiniflareWorkerOptions(CONFIG, group)
        .workerOptions as WorkerOptions;
      const { PUBLIC_JWKS, ...secrets } = options.secrets;
      return {
        ...worker,
        name,
        modules: [{ type: "ESModule" as const, path: `${group}.mjs`, contents: code.get(group)! }],
        routes: (routes ?? []).map((route) =>
          (typeof route === "string" ? route : route.pattern).replace(/^[^/]+/, "*"),
        ),
        bindings: { ...worker.bindings, ...secrets, JWKS: MINTS.has(group) ? secrets.JWKS : PUBLIC_JWKS },
        ...(options.outbound && { outboundService: outside(options.outbound) }),
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

  await Promise.all(groups.map(async ([group, { main }]) => keep(group)(await build(bundling(main, options.alias)))));
  const miniflare = new Miniflare(settings());
  const url = await miniflare.ready;
  const reloads = options.onReload
    ? await watch(groups, options.onReload, keep, () => miniflare.setOptions(settings()))
    : [];
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
  return {
    url,
    directUrl: async (group) => miniflare.unsafeGetDirectURL(groups.find(([name]) => name === group)![1].name),
    fireCrons: async () => {
      await Promise.all(scheduled.map(({ name, cron }) => fire(name, cron)));
    },
    close: async () => {
      for (const cron of crons) cron.stop();
      await Promise.all(running);
      await Promise.all(reloads.map((reload) => reload.dispose()));
      await miniflare.dispose();
    },
  };
}

/** The database is on this machine, and is asked as ever. Miniflare has a Request and a Response of its own. */
const outside = (answer: NonNullable<RuntimeOptions["outbound"]>) => async (asked: Request) => {
  const { method, url } = asked;
  const body = ["GET", "HEAD"].includes(method) ? null : await asked.arrayBuffer();
  const request = new Request(url, { method, headers: [...asked.headers], body });
  const answered = await (new URL(url).hostname === "127.0.0.1" ? fetch(request) : answer(request));
  return new MiniflareResponse(await answered.arrayBuffer(), {
    status: answered.status,
    headers: [...answered.headers],
  });
};

/** Rebuilds a Worker when a file of it changes; changes that come together reload once. */
async function watch(
  groups: [string, Env][],
  onReload: (ms: number) => void,
  keep: (group: string) => (result: BuildResult) => void,
  reload: () => Promise<void>,
) {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const changed = (group: string) => (result: BuildResult) => {
    if (result.errors.length) return;
    keep(group)(result);
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const start = performance.now();
      await reload();
      onReload(performance.now() - start);
    }, 20);
  };
  return Promise.all(
    groups.map(async ([group, { main }]) => {
      let first = true;
      const options = bundling(main);
      const plugin = {
        name: "reload",
        setup: ({ onEnd }: { onEnd: (then: (result: BuildResult) => void) => void }) =>
          onEnd((result) => {
            if (!first) changed(group)(result);
            first = false;
          }),
      };
      const watching = await context({ ...options, plugins: [plugin] });
      await watching.watch();
      return watching;
    }),
  );
}
