/** What agents carry, as a plain model of its rules, written from the contract, beside the system that it is held to. */
import { expect } from "vitest";
import { newId } from "../../lib/ids.ts";
import { type Answer, type Call, must, sql, unique } from "../harness/index.ts";

export type Kind = keyof typeof paths;
const paths = {
  agent: "agents",
  config: "config",
  tool: "agent_tools",
  skill: "agent_skills",
  envVar: "agent_env_vars",
  computer: "agent_computers",
  routine: "agent_routines",
  run: "agent_routine_runs",
  schedule: "schedules",
  installation: "agent_installations",
  source: "installation_sources",
  memory: "agent_working_memory",
  health: "agent_health_actions",
};
const kinds = Object.keys(paths) as Kind[];
type View = Record<string, unknown>;
/** What the model knows of a row, dead or alive. */
type Row = {
  id: string;
  kind: Kind;
  alive: boolean;
  /** On which agent it hangs; a config's owner, where that is an agent. */
  agent: Row | null;
  /** On which row of that agent it hangs: with it, it goes. */
  under: Row | null;
  /** What the API shows of it, as far as the model says. */
  view: View;
  /** What no other row of its kind may have: on one agent, in the org or in the app, as the kind's rule says. */
  key: string | null;
  /** The config that it uses. */
  uses: Row | null;
  /** What the API doesn't show: a config's content, whether an installation is bound, a run's routine, what an action waits for. */
  form: string | null;
  /** The actions that an action depends on. */
  after: Row[];
  /** How many of each kind an agent has that nobody touches. */
  carries: Partial<Record<Kind, number>>;
};
/** A step: what is done, and numbers that choose the rows and values it is done with. */
export type Step = { verb: string; a: number; b: number; c: number };
/** A request, the refusals that it is due, what else it is answered with, and what it changes. */
type Act = {
  method: string;
  path: string;
  body?: object | undefined;
  faults: (number | false | null | undefined)[];
  isFull?: boolean | undefined;
  success: number;
  makes?: (answer: Answer) => void | Promise<void>;
};

const LIMIT = 100;
/** So many of each child stand on one agent from the start: it has room for one more. */
const NEARLY = LIMIT - 1;
const limited: Kind[] = ["tool", "skill", "computer", "routine", "schedule", "installation", "health"];
/** The kind of config that one takes, where it takes one alone. */
const takes: Partial<Record<Kind, string>> = { tool: "Script", skill: "Skill" };
const INVOKED = "agentroutine.invoked";

/** What a transition makes of a status; what it doesn't name is a 422. */
const transitions: Partial<Record<Kind, Record<string, Record<string, string>>>> = {
  tool: {
    activate: { active: "active", disabled: "active" },
    deactivate: { active: "disabled", disabled: "disabled" },
  },
  skill: {
    activate: { active: "active", inactive: "active" },
    deactivate: { active: "inactive", inactive: "inactive" },
  },
  routine: {
    activate: { draft: "active", paused: "active", active: "active" },
    pause: { active: "paused", paused: "paused" },
  },
  schedule: {
    pause: { active: "paused", paused: "paused" },
    resume: { active: "active", paused: "active" },
    cancel: { active: "cancelled", paused: "cancelled", cancelled: "cancelled" },
  },
  installation: {
    activate: { pending: "active", paused: "active", active: "active" },
    pause: { active: "paused" },
    suspend: { pending: "suspended", active: "suspended", paused: "suspended" },
  },
  computer: { refresh: {} },
};
const patched: Kind[] = ["agent", "config", "tool", "skill", "envVar", "routine", "schedule", "memory"];
const all = (verb: string, of: Kind[]) => of.map((kind) => `${verb} ${kind}`);
const creates = all(
  "create",
  kinds.filter((kind) => kind !== "health"),
);
const patches = all("patch", patched);
/** What is made is most of it, so that there is something to change and to delete. */
export const verbs = [
  ...[...creates, ...creates, ...creates, ...patches, ...patches],
  ...all(
    "delete",
    kinds.filter((kind) => kind !== "run" && kind !== "health"),
  ),
  ...Object.entries(transitions).flatMap(([kind, moves]) => Object.keys(moves).map((verb) => `${verb} ${kind}`)),
  ...["archive config", "unarchive config", "verify health", "verify health", "verify health", "verify health"],
  ...["create run", "create run", "patch tool", "create tool", "create tool", "create tool", "patch schedule"],
  ...["delete envVar", "activate tool", "activate tool", "cancel schedule", "pause schedule"],
];

const contents: Record<string, { mime_type: string; texts: string[] }> = {
  Script: { mime_type: "text/plain", texts: ["1", "2"] },
  Skill: {
    mime_type: "text/markdown",
    texts: ["one", "two"].map((word) => `---\nname: s\ndescription: ${word}\n---\n`),
  },
};
const contentOf = (kind: string, n: number) => {
  const { mime_type, texts } = contents[kind]!;
  return { mime_type, raw_content: choose(texts, n) };
};
/** What comes at nine, by where the clock hangs. */
const zones: Record<string, RegExp> = { "Etc/UTC": /T09:00:00/, "Asia/Kolkata": /T03:30:00/ };
/** Actions that wait for each other: what each needs, and after which it comes. */
const setup = [
  { kind: "env_var", title: "one", params: { key: "ONE" }, dedupe_key: "one" },
  { kind: "env_var", title: "two", params: { key: "TWO" }, dedupe_key: "two", depends_on: ["one"] },
  { kind: "install", title: "install", params: { installation_kind: "archastro/knowledge" }, depends_on: ["two"] },
  { kind: "custom", title: "look", depends_on: ["one"] },
];
const inCircles = [
  [{ kind: "custom", title: "a", dedupe_key: "a", depends_on: ["a"] }],
  [
    { kind: "custom", title: "a", dedupe_key: "a", depends_on: ["b"] },
    { kind: "custom", title: "b", dedupe_key: "b", depends_on: ["a"] },
  ],
  [{ kind: "custom", title: "a", depends_on: ["nothing"] }],
];

const choose = <T>(from: readonly T[], n: number): T => from[n % from.length]!;
const pick = (rows: Row[], n: number): Row | undefined => rows[n % (rows.length || 1)];
/** Those of these fields whose bit is set. */
const some = (fields: View, bits: number): View =>
  Object.fromEntries(Object.entries(fields).filter((_, i) => (bits >> i) & 1));
const stateOf = (kind: Kind) => (kind === "installation" ? "state" : "status");
const masked = (value: string) => `****${value.length > 4 ? value.slice(-4) : ""}`;
const isThere = (row: Row | null | undefined, kind?: string) =>
  Boolean(row?.alive && (kind === undefined || row.view.kind === kind));

export class World {
  readonly #rows: Row[] = [];
  readonly #word = unique("m").replaceAll("-", "_").toLowerCase();
  readonly call: Call;
  /** How often each verb was answered with each status. */
  readonly seen = new Map<string, number>();
  constructor(call: Call) {
    this.call = call;
  }

  #of = (kind: Kind): Row[] => this.#rows.filter((row) => row.kind === kind);
  /** One that fits, or, once in a while, any: dead ones are refused, and those of another kind. */
  #pick = (kind: Kind, n: number, form?: string, newest = Infinity): Row | undefined =>
    pick(
      n % 6
        ? this.#of(kind)
            .filter((row) => isThere(row, form))
            .slice(-newest)
        : this.#of(kind),
      n,
    );
  #on = (kind: Kind, agent: Row) => this.#of(kind).filter((row) => row.alive && row.agent === agent);
  /** An action that can be started, or, once in a while, any. */
  #pickAction = (n: number): Row | undefined =>
    n % 2
      ? pick(
          this.#of("health").filter((row) => row.alive && this.#canStart(row)),
          n,
        )
      : this.#pick("health", n);
  #canStart = ({ after, form }: Row) =>
    form !== "waits" && after.every(({ view }) => /completed|degraded/.test(view.status as string));
  /** Whether another row has the key: on the agent, where one is named. */
  #taken = (kind: Kind, key: unknown, { on, but }: { on?: Row | null; but?: Row } = {}): boolean =>
    key != null &&
    this.#of(kind).some((row) => row !== but && row.alive && row.key === key && (!on || row.agent === on));
  /** Whether another active tool of the agent's has the name: a model could not tell which is meant. */
  #clashes = (name: unknown, agent: Row, but?: Row) =>
    this.#on("tool", agent).some((tool) => tool !== but && tool.view.status === "active" && tool.view.name === name);
  #isFull = (kind: Kind, agent: Row) => this.#on(kind, agent).length + (agent.carries[kind] ?? 0) >= LIMIT;

  #add(id: string, row: Partial<Row> & { kind: Kind }): Row {
    const none = { alive: true, agent: null, under: null, view: {}, key: null, uses: null, form: null };
    const added = { ...none, after: [], carries: {}, ...row, id };
    this.#rows.push(added);
    return added;
  }

  #path({ kind, id, agent }: Row): string {
    if (kind === "schedule" || kind === "memory") return `/api/v1/agents/${agent!.id}/${paths[kind]}/${id}`;
    return kind === "run" ? `/api/v1/agent_routines/runs/${id}` : `/api/v1/${paths[kind]}/${id}`;
  }

  /** An agent that has nearly all that one may have. */
  async begin(): Promise<void> {
    const each = (make: (i: number) => object) => Array.from({ length: NEARLY }, (_, i) => make(i));
    const [script, skill] = [`${this.#word}-script`, `${this.#word}-skill`];
    const custom = { tool_type: "custom", handler_type: "script", description: "d", parameters: { type: "object" } };
    const template = {
      name: "Nearly full",
      tools: each((i) => ({ ...custom, name: `tool_${i}`, config_ref: script })),
      skills: each(() => ({ config_ref: skill })),
      routines: each(() => ({ name: "r", handler_type: "script", script: "1" })),
      schedules: each(() => ({ schedule_type: "recurring", cron_expression: "0 9 * * *", instructions: "i" })),
      installations: each(() => ({ install_type: "archastro/knowledge" })),
      computers: each(() => ({ name: "c" })),
      setup_actions: each(() => ({ kind: "custom", title: "t" })),
    };
    const configs = [
      { kind: "Script", lookup_key: script, ...contentOf("Script", 0) },
      { kind: "Skill", lookup_key: skill, ...contentOf("Skill", 0) },
    ];
    const body = { name: "Full", template_bundle: { template, configs } };
    const { id } = await must(this.call("POST", "/api/v1/agents", body), 200);
    const carries = Object.fromEntries(limited.map((kind) => [kind, NEARLY]));
    this.#add(id, { kind: "agent", carries, view: { name: "Full" } });
  }

  /** Does one step, where there is what it is done to, and holds the answer against the model. */
  async take(step: Step): Promise<void> {
    const act = this.#actOf(step);
    if (!act) return;
    const { method, path, body, faults, isFull, success, makes } = act;
    const due = [...new Set([...faults, isFull && 422].filter(Boolean))];
    // Either fault is right where there are two.
    if (due.length > 1) return;
    const wanted = due[0] ?? success;
    const answer = await this.call(method, path, body);
    expect([step.verb, method, path, body, answer.status, answer.text]).toEqual([
      ...[step.verb, method, path, body, wanted, answer.text],
    ]);
    const isLimit = isFull && !faults.some(Boolean);
    if (isLimit) expect(answer.body.error.code).toBe("limit_reached");
    this.#note(`${step.verb} ${isLimit ? "limit" : answer.status}`);
    if (wanted === success) await makes?.(answer);
  }

  #note(what: string) {
    this.seen.set(what, (this.seen.get(what) ?? 0) + 1);
  }

  #actOf(step: Step): Act | undefined {
    const [verb, kind] = step.verb.split(" ") as [string, Kind];
    if (verb === "create") return this.#create(kind, step);
    // What is changed is changed again, and back.
    const newest = verb === "delete" ? undefined : 4;
    const row = verb === "verify" ? this.#pickAction(step.a) : this.#pick(kind, step.a, undefined, newest);
    if (!row) return;
    const gone = !row.alive && 404;
    const path = this.#path(row);
    if (verb === "delete") {
      const goes = this.#rows.filter((one) => one.alive && [one, one.agent, one.under].includes(row));
      const isHeld = this.#rows.some((one) => one.alive && one.uses && goes.includes(one.uses) && !goes.includes(one));
      const makes = () => this.#end(goes);
      return { method: "DELETE", path, faults: [gone || (isHeld && 409)], success: 204, makes };
    }
    if (verb === "patch") {
      const { body, faults, makes } = this.#patch(row, step);
      return { method: "PATCH", path, body, faults: gone ? [gone] : faults, success: 200, makes };
    }
    const act = { method: "POST", path: `${path}/${verb}`, success: 200 };
    if (kind === "config") {
      const is_archived = verb === "archive";
      return { ...act, faults: [gone], makes: () => void Object.assign(row.view, { is_archived }) };
    }
    if (kind === "health") return { ...act, ...this.#verify(row) };
    const state = stateOf(kind);
    const to = transitions[kind]![verb]![row.view[state] as string];
    const starts = to === "active" && row.view[state] !== "active";
    const clashes = kind === "tool" && starts && row.agent && this.#clashes(row.view.name, row.agent, row);
    const cannot = to === undefined || (verb === "activate" && row.form === "waits");
    const reason = verb === "suspend" && step.b % 2 ? { reason: "r" } : null;
    return {
      ...act,
      body: verb === "suspend" ? (reason ?? {}) : undefined,
      faults: gone ? [gone] : [cannot && 422, clashes && 409],
      makes: ({ body }) => {
        this.#note(`${step.verb} from ${row.view[state]}`);
        row.view[state] = to;
        if (verb === "suspend") row.view.status_payload = reason;
        if (kind === "schedule") this.#clock(row);
        expect(body).toMatchObject(row.view);
      },
    };
  }

  #end(goes: Row[]) {
    // A run outlives its routine, and still says which it was.
    for (const one of goes) one.alive = false;
  }

  /** When a schedule comes next, while it is active. */
  #clock({ view }: Row) {
    const at = zones[view.timezone as string]!;
    view.next_run_at = view.status === "active" ? expect.stringMatching(at) : null;
  }

  /** An env var's action is done where the variable is there, an install's where an installation of the kind is active, one without a check by word. */
  #verify(row: Row): Pick<Act, "faults" | "makes"> {
    const passes = () =>
      row.form === "look" ||
      (row.form === "install"
        ? this.#on("installation", row.agent!).some(
            ({ view }) => view.kind === "archastro/knowledge" && view.state === "active",
          )
        : this.#on("envVar", row.agent!).some(({ key }) => key === row.form!.toUpperCase()));
    return {
      faults: [row.alive ? !this.#canStart(row) && 422 : 404],
      makes: ({ body }) => {
        const { status } = row.view;
        row.view.status = passes() ? "completed" : status === "pending" ? "pending" : "degraded";
        expect(body.status).toBe(row.view.status);
        this.#note(`verify health ${body.status}`);
      },
    };
  }

  /** A body of some of the fields that may be changed, what is wrong with it, and what it makes of the row. */
  #patch(row: Row, { b, c }: Step): Pick<Act, "body" | "faults"> & { makes: (answer: Answer) => void } {
    const { kind, agent, view } = row;
    const word = choose(["x", "y", null], c);
    const lookup_key = choose([null, `${this.#word}_1`, `${this.#word}_2`], c);
    const metadata = { n: c };
    const uses = this.#pick("config", c, takes[kind]);
    const config = uses?.id ?? "nothing";
    const now =
      (more: View) =>
      ({ body }: Answer) => {
        Object.assign(view, more);
        if ("lookup_key" in more) row.key = more.lookup_key as string | null;
        if ("config" in more) row.uses = uses ?? null;
        if (kind === "schedule") this.#clock(row);
        expect(body).toMatchObject(view);
      };
    if (kind === "agent") {
      const body = some({ name: "N", description: word, identity: word, default_model: word, metadata, lookup_key }, b);
      return { body, faults: [this.#taken(kind, body.lookup_key, { but: row }) && 409], makes: now(body) };
    }
    if (kind === "config") {
      const content = contentOf(view.kind as string, c);
      const body = { ...some({ lookup_key }, b), ...(b & 2 && content) };
      const isNew = Boolean(b & 2) && content.raw_content !== row.form;
      const makes = (answer: Answer) => {
        if (isNew) row.form = content.raw_content;
        const { version_number } = view.current_version as { version_number: number };
        const current_version = { version_number: version_number + Number(isNew) };
        now({ ...("lookup_key" in body && { lookup_key }), current_version })(answer);
      };
      const key = "lookup_key" in body ? lookup_key : null;
      return { body, faults: [this.#taken(kind, key, { but: row }) && 409], makes };
    }
    if (kind === "tool") {
      const isCustom = view.kind === "custom";
      const common = { instruction: word, metadata, lookup_key, approval: choose(["none", "required"], c) };
      const own = { name: choose(["look", "find", "finish"], c), config, async: c % 2 === 0, description: word ?? "d" };
      const body = some({ ...common, effect: choose(["read", null], c), ...(isCustom && own) }, b);
      const renames = body.name !== undefined && view.status === "active";
      const faults = [
        this.#taken(kind, body.lookup_key, { on: agent, but: row }) && 409,
        renames && this.#clashes(body.name, agent!, row) && 409,
        (body.name === "finish" || (!isCustom && body.effect === "read")) && 422,
        body.config !== undefined && !isThere(uses, "Script") && 422,
      ];
      return { body, faults, makes: now(body) };
    }
    if (kind === "skill") {
      const body = some({ instruction: word, metadata, template: config }, b);
      const { template, ...rest } = body;
      const more = template === undefined ? rest : { ...rest, config, last_applied_template_config: config };
      return { body, faults: [template !== undefined && !isThere(uses, "Skill") && 422], makes: now(more) };
    }
    if (kind === "envVar") {
      const value = choose(["v", "a longer one"], c);
      const { value: sent, ...more } = some({ value, description: word }, b);
      const body = { ...more, ...(sent !== undefined && { value }) };
      return { body, faults: [], makes: now({ ...more, ...(sent !== undefined && { masked_value: masked(value) }) }) };
    }
    if (kind === "memory") {
      const body = some({ value: word ?? "z", expires_at: choose([null, PAST, FUTURE], c) }, b);
      if (body.expires_at === null && view.expires_at !== null) this.#note("patch memory for ever");
      return { body, faults: [], makes: now(body) };
    }
    if (kind === "routine") {
      const fields = { name: "R", description: word, metadata, schedule: choose(["0 9 * * *", null], c), lookup_key };
      const event_type = choose([INVOKED, "thread.message.created"], c);
      const body = some({ ...fields, event_type, script: choose(["2", null], c), config }, b);
      const after = { ...view, ...body };
      const faults = [
        this.#taken(kind, body.lookup_key, { on: agent, but: row }) && 409,
        body.config !== undefined && !isThere(uses, "Script") && 422,
        after.script === null && after.config === null && 422,
      ];
      return { body, faults, makes: now(body) };
    }
    const timezone = choose(Object.keys(zones), c);
    const fields = some({ instructions: "j", max_runs: choose([7, null], c), metadata }, b);
    const body = { ...fields, ...(b & 8 && { timezone, cron_expression: "0 9 * * *" }) };
    return { body, faults: [view.status === "cancelled" && 422], makes: now(body) };
  }

  #create(kind: Kind, step: Step): Act | undefined {
    const { a, b, c } = step;
    const key = choose([null, `${this.#word}_1`, `${this.#word}_2`], b);
    if (kind === "agent") return this.#createAgent(key, step);
    if (kind === "config") {
      const owner = c % 2 ? this.#pick("agent", a) : undefined;
      const form = choose(["Script", "Skill"], a);
      const content = contentOf(form, b);
      const whose = owner ? { agent: owner.id } : { system: true };
      const view = { kind: form, lookup_key: key, is_archived: false, current_version: { version_number: 1 } };
      return {
        ...{ method: "POST", path: "/api/v1/config", body: { kind: form, ...content, ...whose, lookup_key: key } },
        faults: [owner?.alive === false && 422, this.#taken(kind, key) && 409],
        success: 201,
        makes: ({ body }) => {
          const row = { view: { ...view, agent: owner?.id ?? null }, form: content.raw_content };
          this.#add(body.id, { kind, key, agent: owner ?? null, ...row });
        },
      };
    }
    if (kind === "run") return this.#invoke(step);
    if (kind === "source") {
      const under = this.#pick("installation", a);
      if (!under) return;
      const payload = { url: "https://example.com/" };
      return {
        ...{ method: "POST", path: `${this.#path(under)}/installation_sources`, body: { type: "web/link", payload } },
        // What connects a service takes no links.
        faults: [under.alive ? under.view.kind !== "archastro/knowledge" && 422 : 404],
        success: 200,
        makes: ({ body }) => void this.#add(body.id, { kind, agent: under.agent, under, view: { payload } }),
      };
    }
    // The first is nearly full: one in four comes to it.
    const agent = a % 4 ? this.#pick("agent", a) : this.#rows[0];
    if (!agent) return;
    const named = agent.alive && agent.key !== null && b % 5 === 0 ? agent.key : agent.id;
    const path = `/api/v1/agents/${named}/${paths[kind]}`;
    const gone = !agent.alive && 404;
    const isFull = agent.alive && limited.includes(kind) && this.#isFull(kind, agent);
    const uses = this.#pick("config", c, takes[kind]) ?? null;
    // By its key a config is found as long as it isn't archived.
    const byKey = uses?.alive && uses.key !== null && b % 3 === 0;
    const config = (byKey ? uses?.key : uses?.id) ?? "nothing";
    const found = (form: string) => isThere(uses, form) && !(byKey && uses?.view.is_archived);
    const act = { method: "POST", path, isFull, success: 200 };
    const add =
      (row: Partial<Row>) =>
      ({ body }: Answer) => {
        const added = this.#add(body.id, { kind, agent, ...row });
        expect(body).toMatchObject(added.view);
      };

    if (kind === "memory") {
      // Nothing writes it through the API: the agent does.
      if (!agent.alive) return;
      const id = newId("working_memory_entry");
      const makes = () =>
        remember(id, agent.id).then(() => void this.#add(id, { kind, agent, view: { ...REMEMBERED } }));
      return { method: "GET", path, faults: [], success: 200, makes };
    }
    if (kind === "tool") {
      const lookup_key = key;
      const status = choose(["active", "disabled"], b);
      if (c % 4 === 0) return this.#createBuiltin({ ...act, faults: [gone] }, agent, { lookup_key, status }, c);
      const name = choose(["look", "find"], c);
      const fields = { kind: "custom", name, description: "d", handler_type: "script", status, lookup_key };
      const clashes = this.#taken(kind, key, { on: agent }) || (status === "active" && this.#clashes(name, agent));
      return {
        ...{ ...act, body: { ...fields, parameters: { type: "object" }, config } },
        faults: gone ? [gone] : [clashes && 409, !found("Script") && 422],
        makes: add({ key, uses, view: { ...fields, config: uses?.id, approval: "none", effect: null } }),
      };
    }
    if (kind === "skill") {
      return {
        ...{ ...act, path: "/api/v1/agent_skills", body: { agent: named, config }, success: 201 },
        faults: [(!agent.alive || !found("Skill")) && 422],
        makes: add({ uses, view: { config: uses?.id, status: "inactive", instruction: null } }),
      };
    }
    if (kind === "envVar") {
      const name = choose(["ONE", "TWO"], b);
      const value = choose(["v", "a longer one"], c);
      const faults = [gone, !gone && this.#taken(kind, name, { on: agent }) && 422];
      const makes = add({ key: name, view: { key: name, masked_value: masked(value) } });
      return { ...act, body: { key: name, value }, faults, makes };
    }
    if (kind === "computer") {
      const body = { name: "c", lookup_key: key };
      const faults = [gone, !gone && this.#taken(kind, key) && 409];
      return { ...act, body, faults, makes: add({ key, view: { ...body, status: "error" } }) };
    }
    if (kind === "routine") {
      const event_type = choose([INVOKED, INVOKED, "thread.message.created"], a);
      const fields = { name: "r", event_type, status: choose(["draft", "active", "active"], c), lookup_key: key };
      const what = b % 2 ? { script: "1", config: null } : { script: null, config: uses?.id ?? "nothing" };
      const missing = what.config !== null && !isThere(uses, "Script");
      return {
        ...{ ...act, body: { ...fields, ...what, handler_type: "script" } },
        faults: gone ? [gone] : [missing && 422, this.#taken(kind, key, { on: agent }) && 409],
        makes: add({ key, uses: what.config ? uses : null, view: { ...fields, ...what, schedule: null } }),
      };
    }
    if (kind === "schedule") {
      const cron_expression = c % 5 ? "0 9 * * *" : "0 0 30 2 *";
      const body = { schedule_type: "recurring", cron_expression, instructions: "i" };
      // An input at fault is told before anybody looks for the agent.
      if (c % 5 === 0) return { ...act, body, faults: [422], isFull: false };
      const view = { ...body, status: "active", timezone: "Etc/UTC", max_runs: null };
      const next_run_at = expect.stringMatching(zones["Etc/UTC"]!);
      return { ...act, body, faults: [gone], makes: add({ view: { ...view, next_run_at } }) };
    }
    const isService = c % 3 === 0;
    const integration = isService && c % 2 ? { access_token: `${this.#word}-token` } : undefined;
    const body = { kind: isService ? "integration/github" : "archastro/knowledge", lookup_key: key };
    const state = integration ? "active" : "pending";
    return {
      ...{ ...act, body: { ...body, ...(integration && { integration }) } },
      faults: [gone, !gone && this.#taken(kind, key) && 409],
      // Without what connects it, a service stays pending.
      makes: add({ key, form: isService && !integration ? "waits" : null, view: { ...body, state } }),
    };
  }

  /** A builtin that nothing stands behind yet waits, and an action says so. An agent has each once. */
  #createBuiltin(
    act: Act,
    agent: Row,
    { status, lookup_key }: { status: string; lookup_key: string | null },
    c: number,
  ) {
    const builtin_tool_key = choose(["search", "memory"], c >> 2);
    const waits = builtin_tool_key === "search";
    const fields = { kind: "builtin", builtin_tool_key, lookup_key };
    const isThere = this.#on("tool", agent).some(({ view }) => view.builtin_tool_key === builtin_tool_key);
    const makes = async ({ body }: Answer) => {
      const form = waits ? "waits" : null;
      const view = { ...fields, name: builtin_tool_key, status: waits ? "disabled" : status };
      expect(body).toMatchObject(view);
      const under = this.#add(body.id, { kind: "tool", agent, key: lookup_key, form, view });
      if (!waits) return;
      const actions: View[] = await this.#list(agent, "health");
      const action = actions.find(({ params }) => (params as View).tool === body.id);
      this.#add(action?.id as string, { kind: "health", agent, under, form: "waits", view: { status: "pending" } });
    };
    const clashes = isThere || this.#taken("tool", lookup_key, { on: agent });
    return {
      ...{ ...act, body: { ...fields, status }, makes },
      faults: agent.alive ? [clashes && 409] : [404],
      isFull: act.isFull || (agent.alive && waits && this.#isFull("health", agent)),
    };
  }

  /** By itself, or with actions that wait for each other: in circles they can't. */
  #createAgent(key: string | null, { a, c }: Step): Act {
    const body = { name: "A", lookup_key: key };
    const setup_actions = [undefined, undefined, setup, choose(inCircles, a)][c % 4];
    const bundle = setup_actions && { template_bundle: { template: { name: "A" }, setup_actions } };
    return {
      ...{ method: "POST", path: "/api/v1/agents", body: { ...body, ...bundle }, success: 200 },
      faults: [this.#taken("agent", key) && 409, c % 4 === 3 && 422],
      makes: async (answer) => {
        const agent = this.#add(answer.body.id, { kind: "agent", key, view: body });
        if (!bundle) return;
        const actions: View[] = await this.#list(agent, "health");
        for (const { title, depends_on = [] } of setup) {
          const after = this.#on("health", agent).filter(({ form }) => depends_on.includes(form!));
          const id = actions.find((action) => action.title === title)?.id as string;
          const view = { title, status: "pending", depends_on: after.map((one) => one.id) };
          this.#add(id, { kind: "health", agent, after, form: title, view });
        }
      },
    };
  }

  /** A run of a routine that is active and may be invoked. It goes its own way from there. */
  #invoke({ a }: Step): Act | undefined {
    const canStart = ({ view }: Row) => view.status === "active" && view.event_type === INVOKED;
    const able = this.#of("routine").filter((row) => row.alive && canStart(row));
    const routine = a % 4 ? pick(able, a) : this.#pick("routine", a);
    if (!routine) return;
    const can = canStart(routine);
    return {
      ...{ method: "POST", path: `/api/v1/agent_routines/${routine.id}/invoke`, success: 200 },
      body: { message: "Go" },
      faults: [routine.alive ? !can && 422 : 404],
      makes: ({ body }) => {
        const view = { routine: routine.id };
        this.#add(body.id, { kind: "run", agent: routine.agent, form: routine.id, view });
      },
    };
  }

  /** What a list over an agent shows of a kind. */
  async #list({ id }: Row, kind: Kind): Promise<View[]> {
    const over = kind === "skill" || kind === "routine" || kind === "run";
    const path = over ? `/api/v1/${paths[kind]}?agent=${id}&limit=200` : `/api/v1/agents/${id}/${paths[kind]}`;
    const { data } = await must(this.call("GET", path), 200);
    // What the ends of its runs have shown of its health comes by itself.
    const isModelled = ({ source, params }: View) => source === "setup" || "tool" in (params as View);
    return kind === "health" ? data.filter(isModelled) : data;
  }

  /** Every row that is alive is there as the model has it, and no other is. */
  async check(): Promise<void> {
    // The lists show the others.
    for (const [i, row] of this.#rows.entries()) if (!row.alive || i % 3 === 0) await this.#checkRow(row);
    for (const agent of this.#of("agent").filter(({ alive }) => alive)) {
      for (const kind of kinds.filter((kind) => !["agent", "config", "source"].includes(kind))) {
        const listed = await this.#list(agent, kind);
        const there = this.#on(kind, agent).filter(({ view }) => view.expires_at !== PAST);
        this.#compare(kind, listed, there);
        expect([kind, listed.length]).toEqual([kind, there.length + (agent.carries[kind] ?? 0)]);
      }
    }
    for (const one of this.#of("installation").filter(({ alive }) => alive)) {
      const { data } = await must(this.call("GET", `${this.#path(one)}/installation_sources`), 200);
      this.#compare(
        "source",
        data,
        this.#of("source").filter(({ alive, under }) => alive && under === one),
      );
    }
    for (const kind of ["agent", "config"] as const) {
      const { data } = await must(this.call("GET", `/api/v1/${paths[kind]}?page_size=100&limit=100`), 200);
      const there = this.#of(kind).filter(({ alive, view }) => alive && !view.is_archived);
      this.#compare(kind, data, there);
    }
  }

  /** A list has these of the rows that the model knows, newest first, each as the model has it. */
  #compare(kind: Kind, listed: View[], there: Row[]) {
    const known = new Set(this.#of(kind).map(({ id }) => id));
    const shown = listed.filter(({ id }) => known.has(id as string));
    // What there is to do is listed in the order in which it is done.
    const byId = <R extends { id?: unknown }>(rows: R[]) =>
      rows.toSorted((one, other) => (one.id! < other.id! ? -1 : 1));
    const inOrder = kind === "health" ? byId(shown) : shown;
    const wanted = kind === "health" ? byId(there) : there.toReversed();
    expect([kind, inOrder.map(({ id }) => id)]).toEqual([kind, wanted.map(({ id }) => id)]);
    expect(inOrder).toMatchObject(wanted.map(({ view }) => view));
  }

  async #checkRow(row: Row): Promise<void> {
    // Those that have no address of their own to be read at.
    if (row.kind === "memory" || row.kind === "source") return;
    const { status, body } = await this.call("GET", this.#path(row));
    expect([row.kind, row.id, status]).toEqual([row.kind, row.id, row.alive ? 200 : 404]);
    if (row.alive) expect(body).toMatchObject(row.view);
    if (row.alive && row.kind === "config") {
      expect((await this.call("GET", `${this.#path(row)}/content`)).text).toBe(row.form);
    }
  }
}

const PAST = "2020-01-01T00:00:00Z";
const FUTURE = "2999-01-01T00:00:00Z";
const REMEMBERED = { value: "v", expires_at: null };

/** As the agent would write it, which no route does. */
const remember = (id: string, agent: string) =>
  sql(
    `insert into data.agent_working_memory (app_id, sandbox_id, org_id, agent_id, id, key, value)
      select app_id, sandbox_id, org_id, id, $2, $2, $3 from data.agents where id = $1`,
    [agent, id, REMEMBERED.value],
  );
