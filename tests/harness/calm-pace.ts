/**
 * Bundled in the place of lib/motion/pace.ts: an agent's health is judged when somebody asks for it, and at no time else;
 * and Dispatchers, whose rounds took a third of a walk, look less often.
 */
export const PACE = {
  ...{ late: 45_000, step: 930_000, again: 12_000, goes_on: 40_000, stuck: 60_000, suspended: 600_000 },
  ...{ judged: 86_400_000, told: 100 },
};
