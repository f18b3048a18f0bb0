/** Bundled in the place of lib/events/remote.ts: nobody numbers what happened, nor begins what it starts. */
const asleep = { wake: async () => {}, number: async () => {} };
export const dispatcherOf = () => asleep;
export const wakeDispatcher = async () => {};
