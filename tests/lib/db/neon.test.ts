/** What becomes of a round trip when the connection brings no answer. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { CompiledQuery } from "kysely";
import { expect, it, vi } from "vitest";
import { asRefusal } from "../../../lib/db/errors.ts";
import { connect } from "../../../lib/db/neon.ts";

it("a round trip without an answer ends after 30 s, and may be made again", async () => {
  const asked = Promise.withResolvers<void>();
  const server = createServer(() => asked.resolve());
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const logged = vi.spyOn(console, "error").mockReturnValue();
  try {
    const ask = connect(`postgresql://u:p@127.0.0.1:${(server.address() as AddressInfo).port}/agentry`);
    let ended: unknown;
    const asking = ask([CompiledQuery.raw("select 1")], "read").catch((error) => {
      ended = error;
    });
    await asked.promise;
    vi.advanceTimersByTime(29_999);
    await new Promise(setImmediate);
    expect(ended).toBeUndefined();
    vi.advanceTimersByTime(1);
    await asking;
    expect(asRefusal(ended, "self")).toMatchObject({ status: 503 });
  } finally {
    vi.useRealTimers();
    logged.mockRestore();
    server.closeAllConnections();
    server.close();
  }
});
