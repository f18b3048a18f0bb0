/** Every Worker of wrangler.toml in Miniflare, as Cloudflare would dispatch them. The only file that knows its API. */
import { Cron } from "croner";
import { type BuildOptions, type BuildResult, build, context } from "esbuild";
import { convertV4MiniflareOptions, Miniflare, Response as MiniflareResponse } from "miniflare";
import { unstable_getMiniflareWorkerOptions, unstable_readConfig } from "wrangler";
import { CONFIG, type Group, ROOT, readGroups } from "./groups.ts";

export type Secrets = Cloudflare.AllEnv;
export type RuntimeOptions = {
  port: number;
  /** Each Worker is given those that wrangler.toml requires for it, and ISSUERS. */
  secrets: Secrets;
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

/** What wrangler reads of an environment, in the shape that convertV4MiniflareOptions takes. */
type WorkerOptions = Partial<Record<"modulesRules" | "bindings" | "serviceBindings", object>>;
type Scheduled = { scheduled(event: { cron: string }): Promise<unknown> };

/** The secrets that wrangler.toml requires come from the caller: wrangler would ask the environment for them. */
const workerOptions = (group: string): WorkerOptions => {
  const config = { ...unstable_readConfig({ config: CONFIG, env: group }), secrets: undefined };
  const { modulesRules: _, ...worker } = unstable_getMiniflareWorkerOptions(config, group)
    .workerOptions as WorkerOptions;
  return worker;
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
  const { groups: wanted } = options;
  const groups = readGroups().filter(([group]) => (wanted ? wanted.includes(group) : group !== "all"));
  const code = new Map<string, string>();
  const keep = (group: string) => (result: BuildResult) => {
    const [file] = result.outputFiles ?? [];
    if (file) code.set(group, file.text);
  };
  const workers = () =>
    groups.map(([group, { name, routes, secrets }]) => {
      const worker = workerOptions(group);
      const given = ["ISSUERS", ...secrets.required].map((key) => [key, options.secrets[key as keyof Secrets]]);
      if (options.allowLoopback !== undefined) given.push(["ALLOW_LOOPBACK", options.allowLoopback]);
      return {
        ...worker,
        name,
        modules: [{ type: "ESModule" as const, path: `${group}.mjs`, contents: code.get(group)! }],
        routes: (routes ?? []).map(({ pattern }) => pattern.replace(/^[^/]+/, "*")),
        bindings: { ...worker.bindings, ...Object.fromEntries(given) },
        serviceBindings: { ...worker.serviceBindings, EGRESS: egress(options) },
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
      await Promise.all(reloads.map((reload) => reload.dispose()));
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

/** Rebuilds a Worker when a file of it changes; changes that come together reload once. */
async function watch(
  groups: [string, Group][],
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
