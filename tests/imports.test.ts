/** Which way imports may point: from functions to lib, from the part to the whole, and Node only where it may be. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, relative, resolve } from "node:path";
import { expect, it } from "vitest";

const root = resolve(import.meta.dirname, "..");
const files = ["functions", "lib"].flatMap((dir) =>
  readdirSync(join(root, dir), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => join(dir, name)),
);
const imports = files.flatMap((file) =>
  [...readFileSync(join(root, file), "utf8").matchAll(/(?:from|import\()\s*"([^"]+)"/g)].map(([, target]) => ({
    file,
    target: target!.startsWith(".") ? normalize(join(dirname(file), target!)) : target!,
  })),
);
const group = (path: string) => path.split("/")[1]!;

it("finds the files it judges", () => {
  expect(files.length).toBeGreaterThan(50);
  expect(imports.length).toBeGreaterThan(200);
});

it("lets lib import nothing of functions", () => {
  expect(imports.filter(({ file, target }) => file.startsWith("lib/") && target.startsWith("functions/"))).toEqual([]);
});

it("keeps groups apart", () => {
  const crossing = imports.filter(
    ({ file, target }) =>
      file.startsWith("functions/") &&
      target.startsWith("functions/") &&
      file.split("/").length > 2 &&
      group(file) !== group(target),
  );
  expect(crossing).toEqual([]);
});

it("uses Node, and what only develops, nowhere but in lib/local", () => {
  const { devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const local = imports.filter(
    ({ file, target }) =>
      !file.startsWith("lib/local/") &&
      (target.startsWith("node:") || target in devDependencies || target.startsWith("lib/local/")),
  );
  // Types alone: they are gone at run time.
  expect(local.filter(({ target }) => target !== "openapi-types")).toEqual([]);
});

it("lets nouns import from the part to the whole, never in a circle", () => {
  const machinery = new Set([
    "auth",
    "db",
    "http",
    "objects",
    "local",
    "env.ts",
    "errors.ts",
    "ids.ts",
    "kinds.ts",
    "paging.ts",
  ]);
  const edges = new Map<string, Set<string>>();
  for (const { file, target } of imports) {
    const [from, to] = [group(file), group(target)];
    if (
      !file.startsWith("lib/") ||
      !target.startsWith("lib/") ||
      from === to ||
      machinery.has(from) ||
      machinery.has(to)
    )
      continue;
    edges.set(from, (edges.get(from) ?? new Set()).add(to));
  }
  const reaches = (from: string, to: string, seen = new Set<string>()): boolean =>
    [...(edges.get(from) ?? [])].some((next) => next === to || (!seen.has(next) && reaches(next, to, seen.add(next))));
  expect([...edges.keys()].filter((noun) => reaches(noun, noun))).toEqual([]);
});

it("has no circle of imports, types included: each file can be read after those that it names", () => {
  const edges = new Map<string, string[]>();
  for (const { file, target } of imports) edges.set(file, [...(edges.get(file) ?? []), target]);
  const circles: string[] = [];
  const done = new Set<string>();
  const visit = (file: string, path: string[]) => {
    if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(" → "));
    if (done.has(file) || path.includes(file)) return;
    for (const next of edges.get(file) ?? []) visit(next, [...path, file]);
    done.add(file);
  };
  for (const file of files) visit(file, []);
  expect(circles).toEqual([]);
});

it("lets machinery know no noun", () => {
  const nouns = new Set(files.filter((file) => /^lib\/[^/]+\/queries\.ts$/.test(file)).map(group));
  const knowing = imports.filter(
    ({ file, target }) =>
      /^lib\/(auth|db|http|objects)\//.test(file) && target.startsWith("lib/") && nouns.has(group(target)),
  );
  expect(knowing.map(({ file, target }) => `${relative(".", file)} → ${target}`)).toEqual([]);
});
