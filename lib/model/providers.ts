/** The providers' packages, seen from here alone. Only the first is loaded with the rest; the others on first use. */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { EmbeddingModelV4, ImageModelV4, LanguageModelV4, SharedV4ProviderOptions } from "@ai-sdk/provider";
import { notConfigured } from "./errors.ts";
import type { Model } from "./resolve.ts";

type Provider = {
  languageModel(id: string): LanguageModelV4;
  embeddingModel?(id: string): EmbeddingModelV4;
  imageModel?(id: string): ImageModelV4;
};

/** The provider of a model. `fetch` is its only way out. */
export async function providerOf(model: Model, fetch: typeof globalThis.fetch): Promise<Provider> {
  const { base_url: baseURL, provider } = model;
  // None may look for a key by itself.
  const apiKey = model.key ?? "";
  switch (provider) {
    case "compatible":
      return createOpenAICompatible({
        ...{ name: "compatible", baseURL, fetch, includeUsage: true, supportsStructuredOutputs: true },
        ...(apiKey && { apiKey }),
      });
    case "openai":
      return (await import("@ai-sdk/openai")).createOpenAI({ baseURL, apiKey, fetch });
    case "anthropic":
      return (await import("@ai-sdk/anthropic")).createAnthropic({ baseURL, apiKey, fetch });
    case "google":
      return (await import("@ai-sdk/google")).createGoogle({ baseURL, apiKey, fetch });
    case "scripted":
      throw notConfigured("A scripted model answers chats alone.");
  }
}

/** What every chat is sent with. */
export const CHAT_OPTIONS: Record<Model["provider"], SharedV4ProviderOptions> = {
  scripted: {},
  // Any JSON Schema is taken as structured output: strict mode would refuse most. The answer is checked by us.
  compatible: { compatible: { strictJsonSchema: false } },
  // Nothing is kept at the provider: all orgs share one key there, and could name each other's items by their ids.
  openai: { openai: { store: false, strictJsonSchema: false } },
  // A turn of a session repeats all that went before: cached, it costs a tenth.
  anthropic: { anthropic: { cacheControl: { type: "ephemeral" } } },
  google: {},
};
