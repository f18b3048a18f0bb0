/** Bundled in the place of lib/db/sweep.ts: the cron does nothing, and the test sweeps when it wants to. */
export const sweep = async () => {};
