/** Images and embeddings, by the same names, credentials and rules as chats. */
import { invalidAnswer, ModelError } from "./errors.ts";
import { providerOf } from "./providers.ts";
import type { Model } from "./resolve.ts";
import { retrying, type StepOptions } from "./step.ts";

/** Base64, and its media type. */
export type Image = { image_data: string; image_type: string };

/** What isn't given is the provider's default. */
export type ImageRequest = {
  prompt: string;
  /** What is to be edited. */
  images?: Image[];
  n?: number;
  /** `1024x1024` */
  size?: string;
  /** `16:9` */
  aspect_ratio?: string;
  /** `1K`, `2K` */
  image_size?: string;
  quality?: string;
  style?: string;
  background?: string;
  output_format?: string;
};

export type ImageAnswer = {
  images: Image[];
  revised_prompt: string | null;
  usage: { input_tokens: number | null; output_tokens: number | null };
};

const OPENAI = ["prompt", "images", "n", "size", "quality", "style", "background", "output_format"];
const TAKES: Partial<Record<Model["provider"], string[]>> = {
  compatible: OPENAI,
  openai: OPENAI,
  google: ["prompt", "images", "aspect_ratio", "image_size"],
};

/** Makes or edits images. Throws `model_refused` for what a provider doesn't take, before it is asked. */
export async function generateImages(model: Model, request: ImageRequest, options: StepOptions): Promise<ImageAnswer> {
  const { n = 1, images = [], ...asked } = request;
  const given = Object.entries({ ...asked, ...(n > 1 && { n }) }).filter(([, value]) => value !== undefined);
  const foreign = given.map(([name]) => name).filter((name) => !TAKES[model.provider]?.includes(name));
  if (foreign.length > 0) throw refused(model, foreign.join(", "));
  const { quality, style, background, output_format, image_size } = asked;
  const answer = await retrying(model, options, async (fetch, abortSignal) => {
    const { imageModel } = await providerOf(model, fetch);
    if (!imageModel) throw refused(model, "images");
    return imageModel(model.id).doGenerate({
      ...{ prompt: asked.prompt, n, seed: undefined, mask: undefined, abortSignal },
      size: asked.size as `${number}x${number}` | undefined,
      aspectRatio: asked.aspect_ratio as `${number}:${number}` | undefined,
      files: images.length > 0 ? images.map(toFile) : undefined,
      providerOptions: {
        compatible: defined({ quality, style, background, output_format }),
        openai: defined({ quality, style, background, outputFormat: output_format }),
        google: image_size ? { imageConfig: { imageSize: image_size } } : {},
      },
    });
  });
  if (answer.images.length === 0) throw invalidAnswer("The provider answered no image.");
  const first = answer.providerMetadata?.[model.provider]?.images?.[0] as { revisedPrompt?: unknown } | undefined;
  const { inputTokens: input_tokens = null, outputTokens: output_tokens = null } = answer.usage ?? {};
  return {
    images: answer.images.map((data) => toImage(typeof data === "string" ? data : toBase64(data))),
    revised_prompt: typeof first?.revisedPrompt === "string" ? first.revisedPrompt : null,
    usage: { input_tokens, output_tokens },
  };
}

/** One vector a text, in order. */
export async function embed(
  model: Model,
  texts: string[],
  options: StepOptions,
): Promise<{ vectors: number[][]; input_tokens: number | null }> {
  const { embeddings, usage } = await retrying(model, options, async (fetch, abortSignal) => {
    const { embeddingModel } = await providerOf(model, fetch);
    if (!embeddingModel || model.provider === "anthropic") throw refused(model, "embeddings");
    return embeddingModel(model.id).doEmbed({ values: texts, abortSignal });
  });
  const length = embeddings[0]?.length ?? 0;
  const fits =
    embeddings.length === texts.length && length > 0 && embeddings.every((vector) => vector.length === length);
  if (!fits) throw invalidAnswer("The provider's embeddings don't fit the texts.");
  return { vectors: embeddings, input_tokens: usage?.tokens ?? null };
}

const refused = ({ provider }: Model, what: string) =>
  new ModelError("model_refused", `${provider}/… does not offer: ${what}.`);

const defined = (options: Record<string, string | undefined>) =>
  Object.fromEntries(Object.entries(options).filter((entry): entry is [string, string] => entry[1] !== undefined));

const toFile = ({ image_data, image_type }: Image) => ({
  type: "file" as const,
  data: image_data,
  mediaType: image_type,
});

/** Providers don't say of what type their images are: their first bytes do. */
function toImage(image_data: string): Image {
  const types = { "/9j/": "image/jpeg", UklGR: "image/webp", R0lGOD: "image/gif" };
  const known = Object.entries(types).find(([head]) => image_data.startsWith(head));
  return { image_data, image_type: known?.[1] ?? "image/png" };
}

function toBase64(bytes: Uint8Array): string {
  let text = "";
  // By pieces: a call takes no more arguments than the stack holds.
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}
