import { describe, expect, it } from "vitest";
import type { Json } from "../../../lib/script/index.ts";
import { evaluate } from "../../../lib/workflows/evaluate.ts";
import { ADDRESS } from "../../../lib/workflows/program.ts";

const scope = { name: "Ann", n: 2, list: ["x", "y"], none: null, template: "{{ env.KEY }}", path: "../admin" };
const env = { KEY: "s3cret" };
const to = (template: Json) => evaluate(template, scope, { env });

describe("a template", () => {
  it.each<[string, Json, Json]>([
    ["keeps what has no braces", { a: ["x", 1, null, true] }, { a: ["x", 1, null, true] }],
    ["is an expression's value, of its type, where it is no more", { a: "{{ $.list }}" }, { a: ["x", "y"] }],
    ["is text where it is more", "{{ $.name }} has {{ $.n + 1 }}, {{ $.list }}{{ $.none }}", 'Ann has 3, ["x","y"]'],
    ["knows the env vars", "{{ env.KEY }}", "s3cret"],
    ["is read once: what a value holds is text", ["{{ $.template }}"], ["{{ env.KEY }}"]],
    ["keeps names as they stand", { "{{ $.name }}": 1 }, { "{{ $.name }}": 1 }],
    ["keeps braces that don't close", "{{ $.name", "{{ $.name"],
    ["walks over what isn't there", "{{ $.a.b.c }}", null],
  ])("%s", async (_, template, value) => {
    expect(await to(template)).toEqual(value);
  });

  it.each<[string, Json, RegExp]>([
    ["an expression that fails", "{{ 1 / 0 }}", /^\{\{ 1 \/ 0 \}\} has no value: /],
    ["one that is none", "{{ 1 + }}", /has no value/],
    ["a call to the outside", '{{ unwrap(requests.get("https://a.example/")) }}', /outbound/],
    ["more than a hundred expressions", "{{ 1 }}".repeat(101), /more than 100/],
    ["more than it may come to", "{{ string.repeat('x', 200000) }}".repeat(6), /longer than 1000000/],
  ])("is refused with a sentence for %s", async (_, template, sentence) => {
    await expect(to(template)).rejects.toThrow(sentence);
  });

  it("takes a hundred expressions", async () => {
    expect(await to("{{ 1 }}".repeat(100))).toBe("1".repeat(100));
  });
});

describe("an address", () => {
  const address = (text: string) => to({ url: { [ADDRESS]: text } });

  it.each([
    ["https://a.example/{{ $.name }}?q={{ $.list }}", "https://a.example/Ann?q=%5B%22x%22%2C%22y%22%5D"],
    ["https://{{ $.name }}.example/", "https://Ann.example/"],
    ["{{ 'https://b.example/x?y=' + $.n }}", "https://b.example/x?y=2"],
  ])("%s leads where it says", async (text, url) => {
    expect(await address(text)).toEqual({ url });
  });

  it.each([
    ["another path", "https://a.example/{{ $.path }}/x"],
    ["another host", "https://{{ $.path }}/"],
    ["an empty path", "https://a.example/{{ $.none }}"],
    ["what is no text", "{{ $.n }}"],
  ])("leads to no other: %s", async (_, text) => {
    await expect(address(text)).rejects.toThrow();
  });
});
