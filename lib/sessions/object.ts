/** A session's own object: the only writer of its journal. */
import { TenantObject } from "../objects/tenant-object.ts";
import type { NewMessage, Refused, Resolution, Sender, SessionRemote, SessionRow, SessionView } from "./remote.ts";

export class SessionObject extends TenantObject implements Omit<SessionRemote, keyof Rpc.DurableObjectBranded> {
  protected override async whenDue(): Promise<void> {}

  async begin(_row: SessionRow): Promise<SessionView> {
    throw new Error("not yet");
  }
  async view(row: SessionRow): Promise<SessionView> {
    return this.begin(row);
  }
  async message(row: SessionRow, _message: NewMessage): Promise<SessionView | Refused> {
    return this.begin(row);
  }
  async cancel(row: SessionRow): Promise<SessionView> {
    return this.begin(row);
  }
  async decide(
    row: SessionRow,
    _call: string,
    _decision: { approved: boolean; arguments_hash: string; note: string | null; by: Sender },
  ): Promise<SessionView | Refused> {
    return this.begin(row);
  }
  async resolve(row: SessionRow, _call: string, _resolution: Resolution & { by: Sender }) {
    return this.begin(row);
  }
  async frames(row: SessionRow, _after: number, _wait_ms: number) {
    return { frames: [], last: 0, status: (await this.begin(row)).status };
  }
  async pinned(_row: SessionRow) {
    return null;
  }
  async wake() {}
}
