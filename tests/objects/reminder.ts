/** An object that stands for all that are to come: it lives in the tests and in no Worker of wrangler.toml. */
import type { Bindings } from "../../lib/env.ts";
import { newId } from "../../lib/ids.ts";
import { objectOf, objectOfTenant, type Place } from "../../lib/objects/stub.ts";
import { TenantObject } from "../../lib/objects/tenant-object.ts";

export class Reminder extends TenantObject {
  readonly #inFlight: string[] = [];
  #most = 0;

  constructor(ctx: DurableObjectState, env: Bindings) {
    super(ctx, env);
    ctx.storage.sql.exec("create table if not exists done (name text, at integer, twice integer, object text)");
  }

  /** What is to be done is said by the words of the name. */
  protected override async whenDue(name: string): Promise<void> {
    const twice = this.#inFlight.includes(name) ? 1 : 0;
    this.#most = Math.max(this.#most, this.#inFlight.push(name));
    const object = this.ctx.id.name ?? null;
    this.ctx.storage.sql.exec("insert into done values (?, ?, ?, ?)", name, Date.now(), twice, object);
    try {
      await this.#do(name.split(" "));
    } finally {
      this.#inFlight.splice(this.#inFlight.indexOf(name), 1);
    }
  }

  async #do(words: string[]): Promise<void> {
    await scheduler.wait(words.includes("hang") ? 3_600_000 : words.includes("slow") ? 400 : 1);
    if (words.includes("throw")) throw new Error("as it was told");
    if (words.includes("again")) this.due(words.join(" "), Date.now() + 3_600_000);
    if (words.includes("read")) await this.agents();
  }

  async set(...items: [name: string, at: number][]) {
    for (const [name, at] of items) this.due(name, at);
  }

  async drop(name: string) {
    this.notDue(name);
  }

  /** As if the alarm had never been set. */
  async lose() {
    await this.ctx.storage.deleteAlarm();
  }

  async state() {
    const { sql } = this.ctx.storage;
    return {
      done: sql.exec("select * from done order by rowid").toArray(),
      due: sql.exec("select name, at from due order by at, name").toArray(),
      alarm: await this.ctx.storage.getAlarm(),
      most: this.#most,
      size: sql.databaseSize,
    };
  }

  /** What is left in storage when the object has ended: no table, no alarm. */
  async remains() {
    const tables = this.ctx.storage.sql.exec("select name from sqlite_master where name not like '\\_cf%' escape '\\'");
    return { tables: tables.toArray(), alarm: await this.ctx.storage.getAlarm() };
  }

  async agents() {
    return (await this.db.selectFrom("agents").select("name").orderBy("name").execute()).map(({ name }) => name);
  }

  /** Makes an agent; answers where it lies. */
  async make(name: string) {
    const made = this.db
      .insertInto("agents", { id: newId("agent"), name })
      .returningAll()
      .execute();
    return (await made).map(({ org_id }) => org_id);
  }
}

type Env = Bindings & { REMINDER: DurableObjectNamespace<Reminder> };
export type Method = "set" | "drop" | "lose" | "state" | "remains" | "agents" | "make" | "erase";
/** `named` goes past the row, as nothing of the product does. */
export type Ask = { row: Place & { id?: string }; named?: string; method: Method; args: unknown[] };

export default {
  async fetch(request, env) {
    const { row, named, method, args } = await request.json<Ask>();
    const { id } = row;
    const stub = named
      ? env.REMINDER.getByName(named)
      : id
        ? objectOf(env.REMINDER, { ...row, id })
        : objectOfTenant(env.REMINDER, row);
    try {
      const answer = await (stub[method] as (...args: unknown[]) => Promise<unknown>)(...args);
      return Response.json(answer ?? null);
    } catch (error) {
      return Response.json(String(error), { status: 500 });
    }
  },
} satisfies ExportedHandler<Env>;
