/** A group stands in functions/groups.ts, as a folder of functions/ and in wrangler.toml: what one lacks is said here. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { groups } from "../functions/groups.ts";
import { type Group, ROOT, readGroups } from "../lib/local/groups.ts";

const listed: Record<string, (typeof groups)["root"]> = groups;
const configured = await readGroups();
const folders = readdirSync(join(ROOT, "functions"), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);
/** What has no route, and so no routers. */
const serving = configured.filter(([, { routes }]) => routes?.length).map(([group]) => group);

describe("a group is registered", () => {
  const inConfig = configured.map(([group]) => group);

  it("in wrangler.toml, and there with its own name and its own index.ts", () => {
    const absent = folders.filter((group) => !inConfig.includes(group));
    expect(absent.map((group) => `wrangler.toml lacks [env.${group}]: copy the one of agents`)).toEqual([]);
    const faults = configured.flatMap(([group, { name, main }]) => [
      name !== `agentry-${group}` && `[env.${group}] wants name = "agentry-${group}"`,
      group !== "all" &&
        main !== `functions/${group}/index.ts` &&
        `[env.${group}] wants main = "functions/${group}/index.ts"`,
    ]);
    expect(faults.filter(Boolean)).toEqual([]);
  });

  it("with the vars and secrets of the single Worker, but for the keys that sign; strangers' scripts compute without any", () => {
    const wants = ({ vars, secrets }: Group) =>
      [...Object.keys(vars), ...secrets.required].filter((name) => name !== "JWKS");
    const all = wants(configured.find(([group]) => group === "all")![1]);
    const faults = configured.flatMap(([group, worker]) => {
      if (group === "compute") return worker.secrets.required;
      const has = wants(worker);
      const differing = [...all.filter((name) => !has.includes(name)), ...has.filter((name) => !all.includes(name))];
      return differing.map((name) => `[env.${group}] and [env.all] differ in ${name}`);
    });
    expect(faults).toEqual([]);
  });

  it("in functions/groups.ts, whence the document and the single Worker have it", () => {
    const absent = serving.filter((group) => group !== "all" && !(group in listed));
    expect(absent.map((group) => `functions/groups.ts lacks ${group}: import its routers, add it to groups`)).toEqual(
      [],
    );
    const gone = Object.keys(listed).filter((group) => !folders.includes(group));
    expect(gone.map((group) => `functions/groups.ts names ${group}, and there is no functions/${group}/`)).toEqual([]);
  });

  it("with every router of its folder", async () => {
    const faults: string[] = [];
    for (const group of folders) {
      for (const file of readdirSync(join(ROOT, "functions", group))) {
        if (file === "index.ts") continue;
        const { default: router } = await import(/* @vite-ignore */ join(ROOT, "functions", group, file));
        if (router && !listed[group]?.includes(router)) faults.push(`functions/${group}/index.ts lacks ${file}`);
      }
    }
    expect(faults).toEqual([]);
  });
});

/** What stands before the `*` of each group's patterns, by the path. The single Worker has all the host's routes. */
const prefixes = configured.flatMap(([group, { routes = [] }]) =>
  group === "all" ? [] : routes.map(({ pattern }) => ({ group, pattern, prefix: pattern.replace(/^[^/]+|\*$/g, "") })),
);
/** Cloudflare takes the most specific of the patterns that match: since all end in `*`, the longest. */
const patternOf = (path: string) =>
  prefixes
    .filter(({ prefix }) => path.startsWith(prefix))
    .reduce((best, next) => (next.prefix.length > best.prefix.length ? next : best));
/** Each address of each group, a sample in the place of its parameters. */
const addresses = Object.entries(listed).flatMap(([group, routers]) => {
  const paths = routers.flatMap(({ routes }) => routes.map(({ path }) => path));
  return [...new Set(paths)].map((path) => ({ group, path, sample: path.replace(/:\w+(\{[^}]*\})?/g, "x") }));
});

describe("the routes of wrangler.toml", () => {
  it("end in `*`, have no other, and are all of one host, that of ISSUERS", () => {
    const patterns = configured.flatMap(([, { routes = [] }]) => routes.map(({ pattern }) => pattern));
    expect(patterns.filter((pattern) => !/^[^*/]+\/[^*]*\*$/.test(pattern))).toEqual([]);
    const hosts = patterns.map((pattern) => pattern.split("/")[0]);
    const issuers = configured.map(([, { vars }]) => new URL(vars.ISSUERS!.split(",")[0]!).host);
    expect(new Set([...hosts, ...issuers]).size).toBe(1);
  });

  it("send each address to the Worker that serves it, with and without a query or a slash", () => {
    expect(addresses.length).toBeGreaterThan(30);
    const faults = addresses.flatMap(({ group, path, sample }) =>
      [sample, `${sample}?page=2`, `${sample}/`]
        .map(patternOf)
        .filter((found) => found.group !== group)
        .map(
          (found) => `${path} goes to ${found.group}: add "…${path.split("/:")[0]}*" to the routes of [env.${group}]`,
        ),
    );
    expect([...new Set(faults)]).toEqual([]);
  });

  it("are none that nothing stands behind", () => {
    const used = new Set(addresses.map(({ sample }) => patternOf(sample).pattern));
    expect(prefixes.map(({ pattern }) => pattern).filter((pattern) => !used.has(pattern))).toEqual([]);
  });
});
