/** Bundled in the place of lib/motion/pace.ts: the same, within seconds. */
export const PACE = { late: 400, step: 5_000, again: 150, goes_on: 600, stuck: 300, suspended: 300, judged: 200 };
