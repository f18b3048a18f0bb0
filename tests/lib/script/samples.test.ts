import { describe, expect, it } from "vitest";
import type { Answer, OutboundCall } from "../../../lib/script/index.ts";
import { validateScript } from "../../../lib/script/index.ts";
import { aWorld, resultOf, run } from "./support.ts";

/** Scripts in the manner of those that people publish: long ones, in the style of their authors. */
const tool = `// Prices the lines of an order sheet.
let http = import("requests")
let arr = import("array")
let str = import("string")

let shop = if ($.shop != null) { $.shop } else { env.DEFAULT_SHOP }
let most: number = if ($.most != null) { $.most } else { 20 }

let sheet = unwrap(http.get("https://api.example.com/shops/" + shop + "/sheet", {
  headers: {
    "Authorization": "Bearer " + env.TOKEN,
    "Accept": "text/plain"
  }
}), null)

if (sheet == null) {
  {error: "no sheet of " + shop}
} else {
  let rows = str.split(sheet.body || "", "\\n")

  let orders = arr.filter(
    arr.map(rows, fn(row) {
      let m = str.match(row, "^\\\\s*\\"([^\\"]+)\\"\\\\s*x\\\\s*(\\\\d+)\\\\s*$")
      if (m != null) {
        {item: m.groups[0], amount: unwrap(str.parseInt(m.groups[1]))}
      } else {
        null
      }
    }),
    fn(order) { order != null }
  )

  let priced = arr.map(arr.slice(orders, 0, most), fn(order) {
    let quote = unwrap(http.post("https://api.example.com/quote", {
      body: { "order": {"item": order.item}, "amount": order.amount }
    }), null)
    let offers = if (quote != null && quote.body != null && quote.body.offers != null) { quote.body.offers } else { [] }
    {item: order.item, offers: arr.length(offers)}
  })

  {
    shop: shop + "/sheet",
    count: arr.length(priced),
    priced: priced,
    message: "Priced " + str.toString(arr.length(priced)) +
             " of " + str.toString(arr.length(orders)) + ".",
  }
} // end of the sheet
`;

const routine = `let threads = import("threads")
let storage = import("storage")
let str = import("string")
let dt = import("datetime")
let jwt = import("jwt")

let note = $.note
let by_agent = note.agent != null
let asked = (note.metadata || {}).ticket != null
let yesterday = unwrap(dt.add(dt.now(), -1, "days"), dt.now())
let url = "https://api.example.com/?from=" + str.substring(yesterday, 0, 10)
let url = if ($.level != "") { url + "&level=" + $.level } else { url }
let key = str.replace(env.PRIVATE_KEY, "\\\\n", "\\n")

if (note != null && by_agent && asked) {
  let thread = unwrap(threads.get({thread: $.thread_id}))
  let wanted = thread.key == "daily" || thread.key == "tickets"
  let header_end = str.lastIndexOf(note.text, "---")
  let start = if (header_end >= 0) { header_end + 3 } else { 0 }
  let text = str.trim(str.substring(note.text, start))
  let m = str.match(text, "[[]topic:([\\\\s\\\\S]*?)]")
  if (m != null) {
    storage.set("last_topic", str.trim(m.groups[0]), {remember_until: "2 days"})
  }
  if (wanted && !str.startsWith(text, "DRAFT") && str.length(text) > 0) {
    unwrap(threads.send_message({
      thread: thread.id,
      content: text + " (" + ((note.user || {}).login || "?") + ")"
    }))
  }
  {status: "done", url: url, lines: str.split(key, "\\n")}
}
`;

const verifier = `let http = import("requests")
let response = http.post("https://api.example.com/v1/query", {
  headers: {"Content-Type": "application/json"},
  body: { "order": { "item": "pen" } }
})

{
  "ok": response.status == 200,
  "status": response.status,
  "message": if (response.status == 200) { "reachable" } else { "not reachable" }
}
`;

const http = (body: unknown, status = 200): Answer => ({ ok: { status, headers: {}, body: body as null } });

describe("a script in the manner of those published", () => {
  for (const [name, source] of Object.entries({ tool, routine, verifier })) {
    it(`raises no finding: the ${name}`, () => expect(validateScript(source).findings).toEqual([]));
  }
  it("runs as a tool", async () => {
    const sheet = 'Orders\n  "pen" x 3\n"ink" x 12 \n';
    const world = aWorld(({ args }) => {
      const text = JSON.stringify(args);
      if (text.includes("/sheet")) return http(sheet);
      return http(text.includes("ink") ? { offers: [{ id: "o1" }] } : {});
    });
    expect(await resultOf(tool, { world, input: { shop: "ada" }, env: { TOKEN: "t" } })).toEqual({
      shop: "ada/sheet",
      count: 2,
      priced: [
        { item: "pen", offers: 0 },
        { item: "ink", offers: 1 },
      ],
      message: "Priced 2 of 2.",
    });
  });
  it("falls back where a request fails", async () => {
    const world = aWorld(() => ({ error: "no answer" }));
    const result = await resultOf(tool, { world, input: {}, env: { DEFAULT_SHOP: "bob" } });
    expect(result).toEqual({ error: "no sheet of bob" });
  });
  it("runs as a routine", async () => {
    const calls: OutboundCall[] = [];
    const world = aWorld((call) => {
      calls.push({ name: call.name, args: call.args });
      return { ok: call.name === "threads.get" ? { id: "thr_1", key: "tickets" } : null };
    });
    const note = { agent: "agi_1", metadata: { ticket: "t1" }, text: "to: all --- All well. [topic: calm ]" };
    const input = { note, thread_id: "thr_1", level: "high" };
    expect(await resultOf(routine, { world, input, env: { PRIVATE_KEY: "a\\nb" } })).toEqual({
      status: "done",
      url: "https://api.example.com/?from=2026-01-01&level=high",
      lines: ["a", "b"],
    });
    expect(calls).toEqual([
      { name: "threads.get", args: [{ thread: "thr_1" }] },
      { name: "storage.set", args: ["last_topic", "calm", { remember_until: "2 days" }] },
      { name: "threads.send_message", args: [{ thread: "thr_1", content: "All well. [topic: calm ] (?)" }] },
    ]);
  });
  it("runs as a verifier, with the status of an answer it did not unwrap", async () => {
    const { result } = await run(verifier, { world: aWorld(() => http({}, 503)) });
    expect(result).toEqual({ ok: false, status: 503, message: "not reachable" });
  });
});
