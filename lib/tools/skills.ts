/** What an agent's skills say: read when its model asks. */
import { bytesOf, textOf } from "../configs/content.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import type { Id } from "../ids.ts";
import type { PinnedSkill, ToolAnswer } from "./calls.ts";

/** Files that a skill tells of. */
const MAX_FILES = 200;

/** A skill's instructions, as they were when the session began, with its files; or one of these, as it is now. */
export async function readSkill(
  db: TenantDb,
  skills: readonly PinnedSkill[],
  name: string,
  path: string | undefined,
): Promise<ToolAnswer> {
  const skill = skills.find((one) => one.name === name) ?? skills.find((one) => one.id === name);
  if (!skill)
    return { error: `There is no such skill. There are: ${skills.map((one) => one.name).join(", ") || "none"}.` };
  const { id, version } = skill.config;
  const files = db
    .selectFrom("configs")
    .where("parent_id", "=", id as Id<"config">)
    .where("archived_at", "is", null);
  const versions = db.selectFrom("config_versions").select(["encoding", "content", "mime_type"]);
  const wanted =
    path === undefined
      ? versions.where("config_id", "=", id as Id<"config">).where("version_number", "=", version)
      : versions.innerJoin(
          files.select(["id as file_id", "version_number as newest"]).where("relative_path", "=", path).as("file"),
          (on) =>
            on
              .onRef("file.file_id", "=", "config_versions.config_id")
              .onRef("file.newest", "=", "config_versions.version_number"),
        );
  const { found, listed } = await db.batch({
    found: wanted.limit(1),
    listed: files.select("relative_path").orderBy("relative_path").limit(MAX_FILES),
  });
  const paths = listed.map(({ relative_path }) => relative_path);
  const [file] = found as { encoding: "raw" | "base64"; content: string }[];
  if (!file) {
    return {
      error:
        path === undefined
          ? "The skill isn't there any more."
          : `It has no such file. It has: ${paths.join(", ") || "none"}.`,
    };
  }
  const bytes = bytesOf({ encoding: file.encoding, text: file.content });
  const content = bytes && textOf(bytes);
  if (content === null) return { error: "The file is no text." };
  return {
    ok: {
      content: path === undefined && paths.length ? `${content}\n\nFiles: ${paths.join(", ")}` : content,
      resolution: null,
    },
  };
}
