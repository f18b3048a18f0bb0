/** Which model a name leads to, and whose credentials it is asked with. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Environment, listModels, ModelError, resolveModel } from "../../../lib/model/index.ts";

const SECRETS = {
  openai: "OPENAI_API_KEY",
  anthropic: "ANTHROPIC_API_KEY",
  google: "GOOGLE_GENERATIVE_AI_API_KEY",
};
const THEIRS = { MODEL_BASE_URL: "http://10.0.0.5:8000/v1", MODEL_API_KEY: "key-of-installation" };
const OWN = "https://models.example.com/v1";

describe("credentials", () => {
  const table: [what: string, env: Environment, agent: Environment, expected: object][] = [
    ["the installation's", THEIRS, {}, { base_url: THEIRS.MODEL_BASE_URL, key: "key-of-installation", guarded: false }],
    [
      "an installation's without a key",
      { ...THEIRS, MODEL_API_KEY: " " },
      {},
      { base_url: THEIRS.MODEL_BASE_URL, key: null, guarded: false },
    ],
    [
      "an agent's address: never with the installation's key",
      THEIRS,
      { MODEL_BASE_URL: OWN },
      { base_url: OWN, key: null, guarded: true },
    ],
    [
      "an agent's address and key",
      THEIRS,
      { MODEL_BASE_URL: OWN, MODEL_API_KEY: "own" },
      { base_url: OWN, key: "own", guarded: true },
    ],
    [
      "an agent's key at the installation's address",
      THEIRS,
      { MODEL_API_KEY: "own" },
      { base_url: THEIRS.MODEL_BASE_URL, key: "own", guarded: false },
    ],
    [
      "an agent's empty address is none",
      THEIRS,
      { MODEL_BASE_URL: "" },
      { base_url: THEIRS.MODEL_BASE_URL, key: "key-of-installation", guarded: false },
    ],
  ];
  it.each(table)("of compatible/…: %s", (_, env, agent, expected) => {
    expect(resolveModel("compatible/meta/llama-3:8b", env, { agent })).toEqual({
      ...{ name: "compatible/meta/llama-3:8b", provider: "compatible", id: "meta/llama-3:8b" },
      ...expected,
    });
  });

  it.each(Object.entries(SECRETS))(
    "of %s/…: the agent's before the installation's, and none is an error that names it",
    (provider, secret) => {
      const name = `${provider}/a-model`;
      expect(resolveModel(name, { [secret]: "theirs" })).toMatchObject({
        provider,
        id: "a-model",
        key: "theirs",
        guarded: false,
      });
      expect(resolveModel(name, { [secret]: "theirs" }, { agent: { [secret]: "own" } })).toMatchObject({
        key: "own",
        guarded: true,
      });
      for (const env of [{}, { [secret]: "" }, { MODEL_API_KEY: "other" }]) {
        expect(() => resolveModel(name, env)).toThrow(
          expect.objectContaining({ code: "model_not_configured", message: expect.stringContaining(secret) }),
        );
      }
    },
  );

  it("of compatible/… without an address, or with one that is none: an error that names it, and not its value", () => {
    for (const address of [
      undefined,
      "",
      "models",
      "ftp://models.example.com",
      "https://u:secret@models.example.com",
      "https://models.example.com/?secret=1",
      "https://models.example.com/#secret",
    ]) {
      for (const [env, agent] of [
        [{ MODEL_BASE_URL: address }, {}],
        [{}, { MODEL_BASE_URL: address }],
      ] as const) {
        const resolved = () => resolveModel("compatible/m", env, { agent });
        expect(resolved).toThrow(
          expect.objectContaining({ code: "model_not_configured", message: expect.stringContaining("MODEL_BASE_URL") }),
        );
        expect(resolved).not.toThrow(/secret/);
      }
    }
  });

  it("that no header can carry are an error, which doesn't show them", () => {
    for (const key of ["two words", "a\nb", "schlüssel"]) {
      for (const [name, env] of [
        ["openai/m", { OPENAI_API_KEY: key }],
        ["compatible/m", { ...THEIRS, MODEL_API_KEY: key }],
      ] as const) {
        const resolved = () => resolveModel(name, env);
        expect(resolved).toThrow(
          expect.objectContaining({ code: "model_not_configured", message: expect.stringContaining("API_KEY") }),
        );
        expect(resolved).not.toThrow(key);
      }
    }
  });

  it("never meet: an address of the agent's own goes with no key of the installation's, whatever is set", () => {
    const text = fc.option(fc.constantFrom("", " ", OWN, "https://other.example.com", "own-key", "own-key-2"), {
      nil: undefined,
    });
    fc.assert(
      fc.property(text, text, fc.boolean(), (MODEL_BASE_URL, MODEL_API_KEY, configured) => {
        try {
          const agent = { MODEL_BASE_URL, MODEL_API_KEY };
          const { base_url, key, guarded } = resolveModel("compatible/m", configured ? THEIRS : {}, { agent });
          expect(guarded).toBe(base_url !== THEIRS.MODEL_BASE_URL);
          if (guarded) expect(key).not.toBe(THEIRS.MODEL_API_KEY);
        } catch (error) {
          expect(error).toBeInstanceOf(ModelError);
        }
      }),
    );
  });
});

describe("names", () => {
  it("that are none, or lead elsewhere on a provider's host, are an error", () => {
    const env = { ...THEIRS, ...Object.fromEntries(Object.values(SECRETS).map((secret) => [secret, "k"])) };
    const names = [
      "a-model",
      "/",
      "openai/",
      "/gpt",
      "mistral/x",
      "toString/x",
      "google/../files",
      "google/cachedContents#",
      "google/a?b",
      "google/a//b",
      "google/./a",
      "google/a b",
      "google/a%2f",
      "openai/a\nb",
      `openai/${"x".repeat(201)}`,
    ];
    for (const name of names) {
      expect(() => resolveModel(name, env), name).toThrow(expect.objectContaining({ code: "model_not_configured" }));
    }
  });

  it("that are missing are the installation's default of the kind, and for chats scripted/echo", () => {
    const env = {
      ...THEIRS,
      DEFAULT_MODEL: "compatible/a",
      DEFAULT_IMAGE_MODEL: "compatible/b",
      DEFAULT_EMBEDDING_MODEL: "compatible/c",
    };
    for (const none of [null, undefined, "", " "]) {
      expect([
        resolveModel(none, env).id,
        resolveModel(none, env, { kind: "image" }).id,
        resolveModel(none, env, { kind: "embedding" }).id,
      ]).toEqual(["a", "b", "c"]);
      expect(resolveModel(none, {}).name).toBe("scripted/echo");
    }
    for (const [kind, setting] of [
      ["image", "DEFAULT_IMAGE_MODEL"],
      ["embedding", "DEFAULT_EMBEDDING_MODEL"],
    ] as const) {
      expect(() => resolveModel(null, THEIRS, { kind })).toThrow(
        expect.objectContaining({ code: "model_not_configured", message: expect.stringContaining(setting) }),
      );
    }
  });

  it("that an installation shows are its list, the default first and once", () => {
    expect(listModels({}, "chat")).toEqual(["scripted/echo"]);
    expect(listModels({ MODELS: "compatible/a, openai/b,," }, "chat")).toEqual(["compatible/a", "openai/b"]);
    expect(listModels({ DEFAULT_MODEL: "openai/b", MODELS: "compatible/a,openai/b" }, "chat")).toEqual([
      "openai/b",
      "compatible/a",
    ]);
    expect(listModels({ IMAGE_MODELS: "openai/i" }, "image")).toEqual(["openai/i"]);
    expect(listModels({}, "image")).toEqual([]);
  });
});
