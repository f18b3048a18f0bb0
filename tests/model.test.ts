/**
 * What an agent carries, against a plain model of its rules: sequences of creating, changing and deleting, of which
 * nobody thought one by one. The model is written from the contract; the same seed makes the same sequences.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { type Answer, anApp, type Call, unique } from "./harness/index.ts";

type Kind = keyof typeof paths;
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
};
/** What the model knows of a row, dead or alive. */
type Row = {
  id: string;
  kind: Kind;
  alive: boolean;
  /** On which agent it hangs; a config's owner, where that is an agent. */
  agent: Row | null;
  status: string | null;
  /** What no other row of its kind may have: on one agent, in the org or in the app, as the kind's rule says. */
  key: string | null;
  /** The config that it uses. */
  uses: Row | null;
  /** A config's kind, a tool's name, whether a routine can be invoked, a run's routine. */
  form: string | null;
};
/** A step: what is done, and numbers that choose the rows and values it is done with. */
type Step = { verb: Verb; a: number; b: number; c: number };

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
const moves = Object.entries(transitions).flatMap(([kind, verbs]) =>
  Object.keys(verbs).map((verb) => `${verb} ${kind}` as const),
);
const creates = Object.keys(paths).map((kind) => `create ${kind}`);
/** What is made is most of it, so that there is something to change and to delete. */
const verbs = [
  ...[...creates, ...creates, ...creates],
  ...Object.keys(paths).flatMap((kind) => (kind === "run" ? [] : [`delete ${kind}`])),
  ...moves,
];
type Verb = (typeof verbs)[number];

const aStep = fc.record({ verb: fc.constantFrom(...verbs), a: fc.nat(1000), b: fc.nat(1000), c: fc.nat(1000) });

class World {
  readonly #rows: Row[] = [];
  readonly #word = unique("m").replaceAll("-", "_").toLowerCase();
  readonly call: Call;
  /** How often each verb was answered with each status. */
  readonly seen = new Map<string, number>();
  constructor(call: Call) {
    this.call = call;
  }

  #of(kind: Kind, form?: string): Row[] {
    return this.#rows.filter((row) => row.kind === kind && (form === undefined || row.form === form));
  }
  #pick = (rows: Row[], n: number): Row | undefined => rows[n % (rows.length || 1)];
  #taken = (kind: Kind, key: string | null, agent?: Row): boolean =>
    key !== null && this.#of(kind).some((row) => row.alive && row.key === key && (!agent || row.agent === agent));
  #add(made: Answer, row: Partial<Row> & { kind: Kind }) {
    this.#rows.push({
      alive: true,
      agent: null,
      status: null,
      key: null,
      uses: null,
      form: null,
      ...row,
      id: made.body.id,
    });
  }
  #path({ kind, id, agent }: Row): string {
    if (kind === "schedule") return `/api/v1/agents/${agent!.id}/schedules/${id}`;
    return kind === "run" ? `/api/v1/agent_routines/runs/${id}` : `/api/v1/${paths[kind]}/${id}`;
  }
  async #ask(step: Step, method: string, path: string, body: object | undefined, wanted: number): Promise<Answer> {
    const answer = await this.call(method, path, body);
    const what = `${step.verb} ${answer.status}`;
    this.seen.set(what, (this.seen.get(what) ?? 0) + 1);
    expect([step.verb, method, path, body, answer.status, answer.text]).toEqual([
      ...[step.verb, method, path, body, wanted, answer.text],
    ]);
    return answer;
  }

  async take(step: Step): Promise<void> {
    const [verb, kind] = step.verb.split(" ") as [string, Kind];
    if (verb === "create") return this.#create(kind, step);
    const row = this.#pick(this.#of(kind), step.a);
    if (!row) return;
    if (verb === "delete") return this.#delete(row, step);
    const to = transitions[kind]![verb]![row.status!];
    // Two active tools of one name would leave a model without a choice.
    const clashes =
      kind === "tool" && to === "active" && row.status !== "active" && this.#clashes(row.form!, row.agent!);
    const wanted = !row.alive ? 404 : clashes ? 409 : to === undefined ? 422 : 200;
    const { body } = await this.#ask(
      step,
      "POST",
      `${this.#path(row)}/${verb}`,
      verb === "suspend" ? {} : undefined,
      wanted,
    );
    if (wanted !== 200) return;
    row.status = to!;
    expect(body.status ?? body.state).toBe(to);
  }

  #clashes = (name: string, agent: Row) =>
    this.#of("tool", name).some((tool) => tool.alive && tool.agent === agent && tool.status === "active");

  async #delete(row: Row, step: Step): Promise<void> {
    const goes = this.#rows.filter((one) => one.alive && (one === row || one.agent === row));
    const held = this.#rows.some(({ alive, uses, agent }) => alive && uses && goes.includes(uses) && agent !== row);
    const wanted = !row.alive ? 404 : held ? 409 : 204;
    await this.#ask(step, "DELETE", this.#path(row), undefined, wanted);
    if (wanted === 204) for (const one of goes) one.alive = false;
  }

  async #create(kind: Kind, step: Step): Promise<void> {
    const { a, b, c } = step;
    const key = [null, `${this.#word}_1`, `${this.#word}_2`][b % 3]!;
    const lookup_key = key;
    if (kind === "agent") {
      const wanted = this.#taken("agent", key) ? 409 : 200;
      const made = await this.#ask(step, "POST", "/api/v1/agents", { name: "A", lookup_key }, wanted);
      if (wanted === 200) this.#add(made, { kind, key });
      return;
    }
    if (kind === "config") {
      const owner = c % 2 ? this.#pick(this.#of("agent"), a) : undefined;
      const form = ["Script", "Skill"][a % 2]!;
      const content =
        form === "Script"
          ? { mime_type: "text/plain", raw_content: "1" }
          : { mime_type: "text/markdown", raw_content: "---\nname: s\ndescription: d\n---\n" };
      const body = { kind: form, ...content, ...(owner ? { agent: owner.id } : { system: true }), lookup_key };
      const wanted = owner?.alive === false ? 422 : this.#taken("config", key) ? 409 : 201;
      const made = await this.#ask(step, "POST", "/api/v1/config", body, wanted);
      if (wanted === 201) this.#add(made, { kind, key, agent: owner ?? null, form });
      return;
    }
    if (kind === "run") {
      const routine = this.#pick(this.#of("routine"), a);
      if (!routine) return;
      const same = key && this.#of("run").find((run) => run.key === key && run.form === routine.id);
      const wanted = !routine.alive ? 404 : routine.status === "active" && routine.form === "invocable" ? 200 : 422;
      const body = { message: "Go", ...(key && { idempotency_key: key }) };
      const made = await this.#ask(step, "POST", `/api/v1/agent_routines/${routine.id}/invoke`, body, wanted);
      if (wanted !== 200) return;
      if (same) expect(made.body.id).toBe(same.id);
      else this.#add(made, { kind, key, agent: routine.agent, form: routine.id, status: "pending" });
      return;
    }
    const agent = this.#pick(this.#of("agent"), a);
    if (!agent) return;
    const at = `/api/v1/agents/${agent.id}/${paths[kind]}`;
    const uses = this.#pick(this.#of("config"), c) ?? null;
    const there = (form: string) => uses?.alive && uses.form === form;
    const make = async (path: string, body: object, refusal: number | false, success: number, row: Partial<Row>) => {
      const absent = kind === "skill" ? 422 : 404;
      const wanted = agent.alive ? refusal || success : absent;
      const made = await this.#ask(step, "POST", path, body, wanted);
      if (wanted === success) this.#add(made, { kind, key, agent, ...row });
    };
    if (kind === "tool") {
      const [form, status] = [["look", "find"][c % 2]!, ["active", "disabled"][b % 2]!];
      const body = {
        ...{ kind: "custom", name: form, description: "d", handler_type: "script", parameters: { type: "object" } },
        ...{ config: uses?.id ?? "nothing", status, lookup_key },
      };
      const clashes = this.#taken(kind, key, agent) || (status === "active" && this.#clashes(form, agent));
      // Either fault is right where there are two.
      if (clashes && !there("Script")) return;
      return make(at, body, clashes ? 409 : !there("Script") && 422, 200, { uses, status, form });
    }
    if (kind === "skill") {
      const body = { agent: agent.id, config: uses?.id ?? "nothing" };
      return make("/api/v1/agent_skills", body, !there("Skill") && 422, 201, { uses, status: "inactive", key: null });
    }
    if (kind === "envVar") {
      const name = ["ONE", "TWO"][b % 2]!;
      return make(at, { key: name, value: "v" }, this.#taken(kind, name, agent) && 422, 200, { key: name });
    }
    if (kind === "computer") {
      const body = { name: "c", lookup_key };
      return make(at, body, this.#taken(kind, key) && 409, 200, { status: "provisioning" });
    }
    if (kind === "routine") {
      const [status, form] = [["draft", "active"][c % 2]!, ["invocable", "other"][a % 2]!];
      const event_type = form === "invocable" ? "agentroutine.invoked" : "thread.message.created";
      const body = { name: "r", handler_type: "script", script: "1", event_type, status };
      return make(at, body, false, 200, { status, form, key: null });
    }
    if (kind === "schedule") {
      const pattern = c % 5 ? "0 9 * * *" : "0 0 30 2 *";
      const body = { schedule_type: "recurring", cron_expression: pattern, instructions: "i" };
      // An input at fault is told before anybody looks for the agent.
      if (c % 5 === 0) return void (await this.#ask(step, "POST", at, body, 422));
      return make(at, body, false, 200, { status: "active", key: null });
    }
    const body = { kind: "archastro/knowledge", lookup_key };
    return make(at, body, this.#taken(kind, key, undefined) && 409, 200, { status: "pending" });
  }

  /** Every row that is alive is there as the model has it, and no other is. */
  async check(): Promise<void> {
    for (const row of this.#rows) {
      const { status, body } = await this.call("GET", this.#path(row));
      const is = status === 200 ? (row.status === null ? null : (body.status ?? body.state)) : status;
      expect([row.kind, row.id, is]).toEqual([row.kind, row.id, row.alive ? row.status : 404]);
    }
    for (const agent of this.#of("agent").filter(({ alive }) => alive)) {
      for (const kind of ["tool", "envVar", "computer", "schedule", "installation"] as const) {
        const { body } = await this.call("GET", `/api/v1/agents/${agent.id}/${paths[kind]}`);
        const there = this.#of(kind).filter((row) => row.alive && row.agent === agent);
        expect(body.data.map(({ id }: Row) => id).sort()).toEqual(there.map(({ id }) => id).sort());
      }
    }
  }
}

/** What must have come up, or the sequences say less than they seem to. */
const CASES = [
  ...["delete agent 409", "delete config 409", "create config 422", "create agent 409", "create computer 409"],
  ...["activate tool 409", "create tool 409", "create tool 422", "create skill 422", "create envVar 422"],
  ...[
    "create run 200",
    "create run 422",
    "create run 404",
    "pause routine 422",
    "pause schedule 422",
    "resume schedule 422",
  ],
  ...["activate installation 422", "pause installation 422", "suspend installation 422", "refresh computer 422"],
];

it("what an agent carries is as its rules say, whatever is done in whatever order", { timeout: 120_000 }, async () => {
  const seen = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(fc.array(aStep, { minLength: 150, maxLength: 200, size: "max" }), async (steps) => {
      const { acme, as } = await anApp();
      const world = new World(as(acme));
      for (let a = 0; a < 2; a++) await world.take({ verb: "create agent", a, b: 0, c: 0 });
      for (const step of steps) await world.take(step);
      await world.check();
      for (const [what, n] of world.seen) seen.set(what, (seen.get(what) ?? 0) + n);
    }),
    { seed: 8, numRuns: 5, endOnFailure: true },
  );
  expect(
    CASES.filter((what) => !seen.has(what)),
    JSON.stringify([...seen]),
  ).toEqual([]);
});
