/**
 * Whether those who follow something may still do so. All who do in this isolate are asked after by one statement every
 * four seconds, by whoever of them comes first: in workerd no request may wait for what another has begun.
 */
import { CompiledQuery } from "kysely";
import { type Allowed, type Asked, toWatch } from "../auth/allow.ts";
import type { Permission } from "../auth/permissions.ts";
import { asDoorRefusal } from "../db/errors.ts";
import { connect } from "../db/neon.ts";
import { ApiError, unavailable } from "../errors.ts";
import { placeOf } from "./gate.ts";

/** Less what a watcher's own look may come late, and the statement takes: a revocation cuts a stream within 5 s. */
const LOOK_MS = 3500;
/** Between two looks, whatever became of the first: its request may have been cut off. */
const AGAIN_MS = 500;
const READ_MS = 60_000;
/** Who hasn't been told for so long that it may go on, is cut off: nobody knows. */
const BLIND_MS = 20_000;
/** An isolate forgets a request that was cut off: who hasn't asked for so long is gone. */
const GONE_MS = 10_000;
/** Streams at once of one org in an isolate, and requests that wait. */
const MOST = 200;

/** `seen`: when it last asked, or will have ended. */
type Follower = { place: string; seen: number };
type Watcher = Follower & {
  door: string;
  permission: Permission;
  /** When it was last alive. */
  alive: number;
  dead: ApiError | null;
};

const followers = new Set<Follower | Watcher>();
let lookedAt = 0;

/** Counts one in. 429 where its org has too many already. */
function join(one: Follower): void {
  const now = Date.now();
  for (const other of followers) if (other.seen < now - GONE_MS) followers.delete(other);
  if ([...followers].filter(({ place }) => place === one.place).length >= MOST) {
    const many = `At most ${MOST} streams of an org can be followed at once. Close one first.`;
    throw new ApiError(429, "too_many_streams", many, [], { "Retry-After": "5" });
  }
  followers.add(one);
}

/** A part of a request that follows something. */
type Following = Asked & { var: Pick<Allowed["Variables"], "credential"> };

/** What a stream asks before it tells anything: it throws when the credential may follow no longer. `leave` ends it. */
export type Watch = { ask: () => Promise<void>; leave: () => void };

/**
 * Watches for a request that has come through its door just now. `read` looks, once a minute, whether what it follows is
 * still there and the viewer's to see. 429 where its org has too many streams already.
 */
export function watch(c: Following, permission: Permission, read: () => Promise<unknown>): Watch {
  const { credential } = c.var;
  const now = Date.now();
  const place = placeOf(credential);
  const me: Watcher = { door: toWatch(credential, permission), permission, place, seen: now, alive: now, dead: null };
  join(me);
  let readAt = now;
  return {
    leave: () => void followers.delete(me),
    ask: async () => {
      me.seen = Date.now();
      followers.add(me);
      if (me.seen - me.alive >= LOOK_MS && me.seen - lookedAt >= AGAIN_MS) await look(c);
      if (me.dead) throw me.dead;
      if (Date.now() - me.alive > BLIND_MS) throw unavailable("nobody could be asked whether a watcher may go on");
      if (me.seen - readAt < READ_MS) return;
      readAt = me.seen;
      await read();
    },
  };
}

/**
 * The same bound for a request that waits so long at most, and asks for its credential again before it gives anything.
 * What it answers ends it.
 */
export function wait({ var: { credential } }: Following, ms: number): () => void {
  const me = { place: placeOf(credential), seen: Date.now() + ms };
  join(me);
  return () => void followers.delete(me);
}

/** Asks after all of them at once. */
async function look({ env }: Following): Promise<void> {
  const now = Date.now();
  lookedAt = now;
  const asked = [...followers].filter((one): one is Watcher => "door" in one && one.seen >= now - GONE_MS);
  const doors = [...new Set(asked.map(({ door }) => door))];
  const query = CompiledQuery.raw("select n, code, reason from app.watch($1)", [`[${doors.join(",")}]`]);
  try {
    const [found] = await connect(env.DATABASE_URL, env.DATABASE)([query], "read");
    const refusals = new Map(
      (found!.rows as { n: number; code: string; reason: string }[]).map((row) => [doors[row.n]!, row]),
    );
    for (const one of asked) {
      const refusal = refusals.get(one.door);
      if (refusal) one.dead = asDoorRefusal(refusal, one.permission);
      else one.alive = now;
    }
  } catch (error) {
    // The next one asks again.
    console.error(JSON.stringify({ watch: String(error) }));
  }
}
