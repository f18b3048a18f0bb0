import { allow } from "../../lib/auth/allow.ts";
import { notFound } from "../../lib/errors.ts";
import { typeOf } from "../../lib/events/catalogue.ts";
import { createEvent, getEvent, listEvents } from "../../lib/events/log.ts";
import { dispatcherOf } from "../../lib/events/remote.ts";
import {
  createEventBody,
  domainEvent,
  eventPage,
  eventType,
  eventTypeList,
  listEventsQuery,
  toDomainEvent,
  toEventType,
  toEventTypes,
} from "../../lib/events/schema.ts";
import { gives } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { reached } from "../../lib/sessions/reach.ts";

const events = router();

events.get(
  "/api/v1/events",
  allow("events:read"),
  valid("query", listEventsQuery),
  gives(200, eventPage, 400, 410, 503),
  async (c) => {
    const list = () => listEvents(c.var.db, c.env.ROOT_SECRETS, c.req.valid("query"));
    let stretch = await list();
    if (stretch.waits) {
      await reached(dispatcherOf(c.env, stretch.place).number());
      stretch = await list();
    }
    const { rows, next, oldest, numbered } = stretch;
    return c.var.answer({
      data: await Promise.all(rows.map((row) => toDomainEvent(row, numbered))),
      next_after: await numbered(next),
      oldest_sequence: oldest,
    });
  },
);

events.post(
  "/api/v1/events",
  allow("events:write"),
  valid("json", createEventBody),
  once("event"),
  gives(201, domainEvent),
  async (c) => {
    const row = await c.var.once(
      (db, id) => createEvent(db, id, c.req.valid("json")),
      async (db, id) => (await getEvent(db, c.env.ROOT_SECRETS, id))[0],
    );
    // A new one has no number yet; what that of an older one is, and how it is shown, is asked for.
    if (row.sequence === null) return c.var.answer(await toDomainEvent(row, async (sequence) => sequence));
    return c.var.answer(await toDomainEvent(...(await getEvent(c.var.db, c.env.ROOT_SECRETS, row.id))));
  },
);

events.get("/api/v1/events/:event", allow("events:read"), gives(200, domainEvent), async (c) => {
  const id = parseId("event", c.req.param("event"));
  return c.var.answer(await toDomainEvent(...(await getEvent(c.var.db, c.env.ROOT_SECRETS, id))));
});

events.get(
  "/api/v1/event_types",
  named("List event types"),
  allow("events:read"),
  gives(200, eventTypeList),
  async (c) => {
    await c.var.db.enter();
    return c.var.answer(toEventTypes());
  },
);

events.get(
  "/api/v1/event_types/:name",
  named("Get an event type"),
  allow("events:read"),
  gives(200, eventType),
  async (c) => {
    await c.var.db.enter();
    const type = typeOf(c.req.param("name"));
    if (!type) throw notFound("event");
    return c.var.answer(toEventType(type.name, type));
  },
);

export default events;
