import { ModelError } from "../model/index.ts";

/** The cosine of the angle between two vectors of one length, from -1 to 1. Throws where one has no direction. */
export function cosineOf(a: number[], b: number[]): number {
  // By the largest of each first: squares of what a provider sends must not leave the range of numbers.
  const [one, other] = [a, b].map((vector) => {
    const most = vector.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    return vector.map((value) => value / most);
  }) as [number[], number[]];
  const dot = (x: number[], y: number[]) => x.reduce((sum, value, i) => sum + value * y[i]!, 0);
  const cosine = dot(one, other) / Math.sqrt(dot(one, one) * dot(other, other));
  if (!Number.isFinite(cosine))
    throw new ModelError("model_answer_invalid", "The provider's embeddings can't be compared.");
  return Math.max(-1, Math.min(1, cosine));
}
