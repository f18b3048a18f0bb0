/** How well an agent is: a pure function of what is known of it, which says what to do wherever something is amiss. */
import type { Share } from "../motion/report.ts";

/** All that counts. Nothing here can grow worse and the score better. */
export type Facts = {
  /** Actions that nobody has done yet: those that are required, and the others. What the checks below ask for isn't among them. */
  required_actions: number;
  other_actions: number;
  /** Actions that were done, and aren't any more. */
  degraded_actions: number;
  /** Why the model can't be asked, as a sentence that says what to set; null: it can. */
  model_missing: string | null;
  /** It goes by a scripted model, which computes nothing. */
  model_scripted: boolean;
  /** Runs and sessions that have ended within 24 hours, and tool calls within one. */
  runs: Share;
  tools: Share;
  /** Runs and sessions that are overdue, and don't go on when they are asked. */
  stuck: number;
  /** Instants of schedules within 24 hours at which nothing began. */
  schedules_missed: number;
  /** Webhook endpoints of its org that are disabled, or have failed for over an hour. */
  endpoints_disabled: number;
  endpoints_failing: number;
  computers_in_error: number;
  installations_in_error: number;
};

export type Status = "ok" | "warning" | "critical";
export type Check = { key: string; label: string; status: Status; summary: string };
export type Score = { score: number; status: Status; checks: Check[] };

type Finding = { status: Exclude<Status, "ok">; penalty: number; summary: string };

const found = (is: boolean, status: Finding["status"], penalty: number, summary: string): Finding[] =>
  is ? [{ status, penalty, summary }] : [];
const critical = (is: boolean, penalty: number, summary: string) => found(is, "critical", penalty, summary);
const warning = (is: boolean, penalty: number, summary: string) => found(is, "warning", penalty, summary);

/** So few say nothing of a half. */
const ENOUGH = 5;

function failing({ total, failed }: Share, what: string, look: string): Finding[] {
  const summary = `${failed} of ${total} ${what} failed: ${look}.`;
  if (total >= ENOUGH && failed > total / 2) return critical(true, 30, summary);
  return warning(failed > total / 10, 10, summary);
}

const CHECKS: readonly [key: string, label: string, good: string, judge: (facts: Facts) => Finding[]][] = [
  [
    "actions",
    "Actions",
    "Nothing is left to do.",
    ({ required_actions: required, other_actions: other, degraded_actions: degraded }) => [
      ...critical(required > 0, 40, `${required} required to do: do what health_actions say, and verify each.`),
      ...warning(
        other + degraded > 0,
        Math.min(20, 5 * (other + degraded)),
        `${other} more to do, ${degraded} degraded: do and verify them, or skip what isn't required.`,
      ),
    ],
  ],
  [
    "model",
    "Model",
    "Its model can be asked.",
    ({ model_missing, model_scripted }) =>
      model_missing === null
        ? warning(model_scripted, 10, "A scripted model answers by rote: name another as the agent's model.")
        : critical(true, 40, model_missing),
  ],
  [
    "runs",
    "Runs and sessions, 24 hours",
    "Few of them fail, or none.",
    ({ runs }) => failing(runs, "runs and sessions", "read the errors of those that failed"),
  ],
  [
    "tools",
    "Tool calls, an hour",
    "Few of them fail, or none.",
    ({ tools }) => failing(tools, "tool calls", "read the errors of GET /api/v1/tool_calls"),
  ],
  [
    "stuck",
    "What is under way",
    "All of it goes on.",
    ({ stuck }) =>
      critical(
        stuck > 0,
        Math.min(60, 30 * stuck),
        `${stuck} don't go on: the feed says which; mend what its errors say, or cancel them.`,
      ),
  ],
  [
    "schedules",
    "Schedules, 24 hours",
    "None was missed.",
    ({ schedules_missed: n }) => warning(n > 0, 10, `${n} missed: backfill those whose work is wanted.`),
  ],
  [
    "webhook_endpoints",
    "Webhook endpoints of the org",
    "All of them take what they are sent.",
    ({ endpoints_disabled: disabled, endpoints_failing: failing }) => [
      ...critical(
        disabled > 0,
        20,
        `${disabled} disabled: mend the receiver, enable the endpoint, replay what it missed.`,
      ),
      ...warning(failing > 0, 10, `${failing} failing for over an hour: mend the receiver, or it will be disabled.`),
    ],
  ],
  [
    "computers",
    "Computers",
    "None is in error.",
    ({ computers_in_error: n }) => warning(n > 0, 10, `${n} in error: refresh it, or delete it and make another.`),
  ],
  [
    "installations",
    "Installations",
    "None is suspended.",
    ({ installations_in_error: n }) =>
      warning(n > 0, 10, `${n} suspended: mend what its status says, and activate it.`),
  ],
];

const statusOf = (findings: readonly Finding[]): Status =>
  findings.some(({ status }) => status === "critical") ? "critical" : findings.length ? "warning" : "ok";

/** 100 without what is amiss, and never below 0; critical below 50, and wherever one check is; warning below 80 likewise. */
export function scoreOf(facts: Facts): Score {
  const findings: Finding[] = [];
  const checks = CHECKS.map(([key, label, good, judge]): Check => {
    const amiss = judge(facts);
    findings.push(...amiss);
    const summary = amiss.map((one) => one.summary).join(" ") || good;
    return { key, label, status: statusOf(amiss), summary };
  });
  const score = Math.max(0, 100 - findings.reduce((sum, { penalty }) => sum + penalty, 0));
  const worst = statusOf(findings);
  const status = worst === "critical" || score < 50 ? "critical" : worst === "warning" || score < 80 ? "warning" : "ok";
  return { score, status, checks };
}

/** What a check asks somebody to do while it fails: an action of source `health`, known by its key. */
export type Wanted = {
  key: string;
  kind: "env_var" | "custom";
  title: string;
  params: Record<string, string>;
  required: boolean;
};

/**
 * The actions of the checks that fail; a key begins with its check's. `secret`: the variable that the model lacks, where
 * one is all it lacks.
 */
export function wantedBy(facts: Facts, secret: string | null): Wanted[] {
  const custom = (is: boolean, key: string, title: string, required = false): Wanted[] =>
    is ? [{ key, kind: "custom", title, params: { id: key }, required }] : [];
  const lacksModel = facts.model_missing !== null;
  const variable: Wanted[] =
    lacksModel && secret !== null
      ? [
          {
            ...{ key: `model:${secret}`, kind: "env_var", title: `Set ${secret}` },
            ...{ params: { key: secret, scope: "agent" }, required: true },
          },
        ]
      : [];
  return [
    ...variable,
    ...custom(lacksModel && secret === null, "model", "Name a model that can be asked", true),
    ...custom(facts.stuck > 0, "stuck", "See to what doesn't go on", true),
    ...custom(
      facts.endpoints_disabled > 0,
      "webhook_endpoints:disabled",
      "Enable the webhook endpoints of the org",
      true,
    ),
    ...custom(facts.endpoints_failing > 0, "webhook_endpoints", "Mend the receivers of the org's webhook endpoints"),
    ...custom(facts.computers_in_error > 0, "computers", "See to the computers that are in error"),
    ...custom(facts.installations_in_error > 0, "installations", "See to the installations that are suspended"),
  ];
}
