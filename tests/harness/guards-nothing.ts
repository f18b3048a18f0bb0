/** In the place of lib/http/guard.ts: what a guard that overlooks everything would let out. */
export const judgeUrl = (text: string) => ({ url: new URL(text) });
export const isLoopback = () => true;
