import type { Context } from "hono";
import { allow } from "../../lib/auth/allow.ts";
import { sealText } from "../../lib/auth/vault.ts";
import { bytesOf, convert, judge, spoken, utf8 } from "../../lib/configs/content.ts";
import { configKindNames, configKinds } from "../../lib/configs/kinds.ts";
import {
  addressed,
  archiveConfig,
  changeOwner,
  contentOf,
  createConfig,
  deleteConfig,
  facetsOf,
  getConfig,
  listConfigs,
  listVersions,
  mustOwn,
  readContent,
  secretKeyOf,
  updateConfig,
} from "../../lib/configs/queries.ts";
import {
  config,
  configList,
  contentQuery,
  createConfigBody,
  encryptedSecret,
  encryptSecretBody,
  facets,
  facetsQuery,
  kindList,
  kindSchema,
  kindsQuery,
  listConfigsQuery,
  listVersionsQuery,
  ownerBody,
  ownerQuery,
  type Shown,
  toConfig,
  toKind,
  toVersion,
  updateConfigBody,
  validateConfigBody,
  validation,
  versionList,
} from "../../lib/configs/schema.ts";
import type { Bindings } from "../../lib/env.ts";
import { badRequest, notFound } from "../../lib/errors.ts";
import { gives, givesBytes, givesNothing } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { openListCursor, paginateList } from "../../lib/paging.ts";
import { wakeScheduler } from "../../lib/schedules/remote.ts";

const configs = router();

configs.get(
  "/api/v1/config",
  named("List configs"),
  allow("configs:read"),
  valid("query", listConfigsQuery),
  gives(200, configList),
  async (c) => {
    const query = c.req.valid("query");
    const page = await openListCursor(c.env.ROOT_SECRETS, "configs", c.var.db.tenant, query);
    return c.var.answer(await paginateList(page, await listConfigs(c.var.db, query, page), toConfig));
  },
);

/** What an automation's schedule comes to next, its Scheduler says, once there is one. */
const planned = async (env: Bindings, row: Shown) => {
  if (row.kind === "Automation") await wakeScheduler(env, row);
};

configs.post(
  "/api/v1/config",
  named("Create a config"),
  allow("configs:write"),
  valid("json", createConfigBody),
  once("config"),
  gives(201, config, 409),
  async (c) => {
    const body = c.req.valid("json");
    const row = await c.var.once(
      (db, id) => createConfig(db, id, body),
      async (db, id) => getConfig(db, await addressed(db, id, {})),
    );
    await planned(c.env, row);
    return c.var.answer(toConfig(row));
  },
);

configs.get(
  "/api/v1/config/facets",
  named("Count configs by kind and by path"),
  allow("configs:read"),
  valid("query", facetsQuery),
  gives(200, facets),
  async (c) => c.var.answer(await facetsOf(c.var.db, c.req.valid("query"))),
);

configs.get(
  "/api/v1/config/kinds",
  named("List the kinds of configs"),
  allow("configs:read"),
  valid("query", kindsQuery),
  gives(200, kindList),
  async (c) => {
    const { kind } = c.req.valid("query");
    await c.var.db.enter();
    return c.var.answer({ data: configKindNames.filter((name) => kind?.includes(name) ?? true).map(toKind) });
  },
);

configs.get(
  "/api/v1/config/kinds/:kind/schema",
  named("Get the schema of a kind of configs"),
  allow("configs:read"),
  gives(200, kindSchema),
  async (c) => {
    const name = c.req.param("kind");
    await c.var.db.enter();
    const kind = configKinds[name];
    if (!kind) throw notFound("address");
    return c.var.answer({ kind: name, json_schema: kind.schema ?? null, sample_yaml: kind.sample ?? null });
  },
);

/** 200 also for content that is wrong: what is wrong with it is the answer. */
configs.post(
  "/api/v1/config/validate",
  named("Validate a config without storing it"),
  allow("configs:read"),
  valid("json", validateConfigBody),
  gives(200, validation),
  async (c) => {
    const body = c.req.valid("json");
    await mustOwn(c.var.db, body);
    const { errors, warnings } = (await judge([body.kind], contentOf(body))).get(body.kind)!;
    return c.var.answer({
      ...{ valid: !errors.length, errors: errors.map(spoken), warnings: warnings.map(spoken) },
    });
  },
);

/** For a place in a config where a secret may stand: it opens for the org (or for the app itself) alone, until that ends. */
configs.post(
  "/api/v1/config/encrypt_secret",
  named("Encrypt a secret for use in a config"),
  allow("configs:write"),
  valid("json", encryptSecretBody),
  gives(200, encryptedSecret),
  async (c) => {
    const { org, plaintext } = c.req.valid("json");
    const key = await secretKeyOf(c.var.db, c.env.ROOT_SECRETS, org);
    return c.var.answer({ encrypted_value: await sealText(key, plaintext) });
  },
);

configs.get(
  "/api/v1/config/:config",
  named("Get a config"),
  allow("configs:read"),
  valid("query", ownerQuery),
  gives(200, config, 422),
  async (c) => {
    const { db } = c.var;
    const row = await getConfig(db, await addressed(db, c.req.param("config"), c.req.valid("query")));
    c.header("ETag", etagOf(row.version_number));
    return c.var.answer(toConfig(row));
  },
);

/** The SDK sends PATCH, older clients PUT: they are one. */
for (const method of ["patch", "put"] as const) {
  configs[method](
    "/api/v1/config/:config",
    named(method === "patch" ? "Update a config" : "Update a config, as older clients do"),
    allow("configs:write"),
    valid("json", updateConfigBody),
    gives(200, config, 409, 412),
    async (c) => {
      const { db } = c.var;
      const body = c.req.valid("json");
      const expected = { version: body.expected_version ?? null, match: matchOf(c) };
      const row = await updateConfig(db, await addressed(db, c.req.param("config"), body), body, expected);
      await planned(c.env, row);
      c.header("ETag", etagOf(row.version_number));
      return c.var.answer(toConfig(row));
    },
  );
}

/** The SDK can't send an owner here: without one, the viewer's own is meant. */
configs.delete(
  "/api/v1/config/:config",
  named("Delete a config"),
  allow("configs:write"),
  valid("query", ownerQuery),
  givesNothing(409),
  async (c) => {
    const { db } = c.var;
    await deleteConfig(db, await addressed(db, c.req.param("config"), c.req.valid("query"), true));
    return c.var.answer();
  },
);

configs.get(
  "/api/v1/config/:config/content",
  named("Get the content of a config"),
  allow("configs:read"),
  valid("query", contentQuery),
  givesBytes(),
  async (c) => {
    const { db } = c.var;
    const { format, ...owner } = c.req.valid("query");
    const { version, ...content } = await readContent(db, await addressed(db, c.req.param("config"), owner));
    c.header("ETag", etagOf(version));
    if (format !== undefined) return c.var.answer(utf8(asked(content, format)), `application/${format}`);
    // What a browser would run must not run as this origin's.
    if (!SHOWN.test(content.mime_type)) c.header("Content-Disposition", "attachment");
    c.header("Content-Security-Policy", "default-src 'none'; sandbox");
    return c.var.answer(bytesOf(content)!, content.mime_type);
  },
);
const SHOWN =
  /^(text\/(plain|markdown|csv|(x-)?yaml)|application\/((x-)?yaml|json)|image\/(png|jpeg|gif|webp))\s*(;|$)/i;

/** YAML and JSON turn into each other, and nothing else turns into anything. */
function asked(content: Parameters<typeof convert>[0], format: string): string {
  const text = format === "yaml" || format === "json" ? convert(content, format) : null;
  if (text === null)
    throw badRequest("no_such_format", "The content is YAML or JSON, and format asks for the other one: nothing else.");
  return text;
}

configs.get(
  "/api/v1/config/:config/versions",
  named("List the versions of a config"),
  allow("configs:read"),
  valid("query", listVersionsQuery),
  gives(200, versionList, 422),
  async (c) => {
    const { db } = c.var;
    const query = c.req.valid("query");
    const { config } = c.req.param();
    const page = await openListCursor(c.env.ROOT_SECRETS, `versions ${config}`, db.tenant, query);
    const rows = await listVersions(db, await addressed(db, config, query), page);
    const { data, ...rest } = await paginateList(page, rows, toVersion, (row) => String(row.version_number));
    return c.var.answer({ versions: data, ...rest });
  },
);

for (const verb of ["archive", "unarchive"] as const) {
  configs.post(
    `/api/v1/config/:config/${verb}`,
    named(`${verb[0]!.toUpperCase()}${verb.slice(1)} a config`),
    allow("configs:write"),
    valid("json", ownerBody),
    gives(200, config),
    async (c) => {
      const { db } = c.var;
      const rows = await addressed(db, c.req.param("config"), c.req.valid("json"));
      const row = await archiveConfig(db, rows, verb === "archive");
      await planned(c.env, row);
      return c.var.answer(toConfig(row));
    },
  );
}

configs.post(
  "/api/v1/config/:config/change_owner",
  named("Give a config to another owner"),
  allow("configs:write"),
  valid("json", ownerBody),
  gives(200, config, 409),
  async (c) => {
    const row = await changeOwner(c.var.db, parseId("config", c.req.param("config")), c.req.valid("json"));
    return c.var.answer(toConfig(row));
  },
);

/** The version, as HTTP knows it (RFC 9110 §8.8.3). */
const etagOf = (version: number) => `"${version}"`;

/** The versions of an If-Match; null where there is none, or where any will do. */
function matchOf(c: Context): number[] | null {
  const header = c.req.header("If-Match");
  if (header === undefined || header.trim() === "*") return null;
  return header
    .split(",")
    .flatMap((tag) => tag.trim().match(/^"([1-9]\d{0,8})"$/)?.[1] ?? [])
    .map(Number);
}

export default configs;
