/** An org with an identity provider: what it asks goes through the front door, by its SCIM token. */
import { anApp, bearer, caller, must, unique } from "../harness/index.ts";

export const SCIM = "/scim/v2";
const PATCH_OP = ["urn:ietf:params:scim:api:messages:2.0:PatchOp"];
export const patch = (...Operations: unknown[]) => ({ schemas: PATCH_OP, Operations });

export type Stage = Awaited<ReturnType<typeof aStage>>;

/** A fresh app, whose org acme has a provider: `asProvider`; people of it have addresses in `domain`. */
export async function aStage() {
  const it = await anApp();
  const { at, acme, asDeveloper } = it;
  const { domain } = await must(asDeveloper("GET", `${at}/orgs/${acme}`), 200);
  const aProvider = async (org: string) => {
    const made = await must(asDeveloper("POST", `${at}/orgs/${org}/scim_tokens`, {}), 201);
    return { ...made, call: caller({ ...bearer(made.token), "Content-Type": "application/scim+json" }) };
  };
  const { token, call: asProvider } = await aProvider(acme);
  const anAddress = () => `${unique("ada")}@${domain}`;
  /** A user whom the provider has made. */
  const aPerson = (fields: object = {}) =>
    must(asProvider("POST", `${SCIM}/Users`, { userName: anAddress(), displayName: "Ada", ...fields }), 201);
  const aGroup = (members: string[] = [], fields: object = {}) =>
    must(
      asProvider("POST", `${SCIM}/Groups`, {
        displayName: unique("Group"),
        members: members.map((value) => ({ value })),
        ...fields,
      }),
      201,
    );
  const userOf = (id: string) => must(asDeveloper("GET", `${at}/users/${id}`), 200);
  return { ...it, domain, token: token as string, asProvider, aProvider, anAddress, aPerson, aGroup, userOf };
}
