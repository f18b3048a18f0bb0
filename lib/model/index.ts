/** Models: all that others use of them. Pure but for the `fetch` it is handed. */
export { LIMITS, type Ways } from "./egress.ts";
export { ModelError, type ModelErrorCode } from "./errors.ts";
export { embed, generateImages, type Image, type ImageAnswer, type ImageRequest } from "./media.ts";
export * from "./messages.ts";
export { type Environment, listModels, type Model, resolveModel, secretFor } from "./resolve.ts";
export { jsonHash, requestHash, type TapeStep } from "./scripted.ts";
export { type StepOptions, step } from "./step.ts";
export { waysOf } from "./ways.ts";
