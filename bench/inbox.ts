/** The object that the bench holds a session's against: it writes what it is sent into its storage, and that is all. */
import { DurableObject } from "cloudflare:workers";

export class SessionObject extends DurableObject {
  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    ctx.storage.sql.exec("create table if not exists messages (id integer primary key, data text not null) strict");
  }

  message(_row: unknown, message: object): { id: number } {
    const insert = "insert into messages (data) values (?) returning id";
    return this.ctx.storage.sql.exec<{ id: number }>(insert, JSON.stringify(message)).one();
  }
}
