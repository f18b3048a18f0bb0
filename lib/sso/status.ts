/** The states of an org's connection, and what leads from one to the next. Pure. */
import type { SsoRow } from "./schema.ts";

type Says = Pick<SsoRow, "provider" | "issuer_url" | "entity_id" | "certificates" | "client_id">;
/** `renewed`: it was tried by nobody since it asks this provider. */
export type Next = { status: SsoRow["status"]; renewed: boolean } | { refused: "sso_enforced" | "sso_untested" };

/**
 * What a PUT makes of a connection (null: there is none yet). Of an enforced one nothing that lets in less surely, or
 * nobody, takes effect unless `enforced: false` is said with it: it never falls open by accident.
 */
export function nextStatus(
  before: (Says & Pick<SsoRow, "status">) | null,
  after: Says,
  { complete, enforced }: { complete: boolean; enforced: boolean | undefined },
): Next {
  const wasEnforced = before?.status === "enforced";
  const renewed = !before || before.status === "incomplete" || isAnother(before, after);
  if (!complete || renewed) {
    if (wasEnforced && enforced !== false) return { refused: "sso_enforced" };
    if (enforced) return { refused: "sso_untested" };
    return { status: complete ? "untested" : "incomplete", renewed };
  }
  if (before.status === "untested") return enforced ? { refused: "sso_untested" } : { status: "untested", renewed };
  return { status: (enforced ?? wasEnforced) ? "enforced" : "active", renewed };
}

/** Whether it is another provider that is asked: what was tried with the one says nothing of the other. */
function isAnother(before: Says, after: Says): boolean {
  if (before.provider !== after.provider || before.issuer_url !== after.issuer_url) return true;
  if (after.provider === "oidc") return before.client_id !== after.client_id;
  return before.entity_id !== after.entity_id || !after.certificates.some((one) => before.certificates.includes(one));
}
