/** Row → stub. An object is reached with a row in hand, which came through its tenant's door: an id opens nothing. */
import { NONE, type Row } from "../db/schema.ts";
import { isId } from "../ids.ts";

/** Where a row lives. */
export type Place = Row<"tenants">;
type Class = Rpc.DurableObjectBranded | undefined;

/** The object of a row. */
export const objectOf = <T extends Class>(namespace: DurableObjectNamespace<T>, row: Place & { id: string }) =>
  namespace.getByName(nameOf(row, row.id));

/** The one object of a tenant: the same for every row that lives there. */
export const objectOfTenant = <T extends Class>(namespace: DurableObjectNamespace<T>, row: Place) =>
  namespace.getByName(nameOf(row, NONE));

const nameOf = ({ app_id, sandbox_id, org_id }: Place, id: string) => [app_id, sandbox_id, org_id, id].join("/");

/** What an object's name says of it. Throws on a name that isn't of `nameOf`. */
export function readName(name = ""): { place: Place; id: string } {
  const [app_id = "", sandbox_id = "", org_id = "", id = "", ...more] = name.split("/");
  if (
    !isId("app", app_id) ||
    !(sandbox_id === NONE || isId("sandbox", sandbox_id)) ||
    !(org_id === NONE || isId("org", org_id)) ||
    !(id === NONE || /^[a-z]+_[0-9A-Za-z]{22}$/.test(id)) ||
    more.length
  ) {
    throw new Error("an object is reached through its row (lib/objects/stub.ts)");
  }
  return { place: { app_id, sandbox_id, org_id }, id };
}
