/**
 * Bundled in the place of lib/motion/pace.ts: the same, within seconds. What is paused is looked after later than an object
 * tries again what it has begun: a look that is set while one runs stands by itself.
 */
export const PACE = {
  late: 400,
  step: 5_000,
  again: 150,
  goes_on: 600,
  stuck: 300,
  suspended: 1_500,
  judged: 200,
  told: 2,
};
