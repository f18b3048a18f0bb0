import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isRedirect, isRegistered, redirectTo } from "../../../lib/oauth-clients/redirects.ts";

describe("an address that a client registers", () => {
  it.each([
    "https://app.example/callback",
    "https://app.example:8443/callback?a=b",
    "http://127.0.0.1/callback",
    "http://127.0.0.1:8080/callback",
    "http://[::1]/callback",
    "http://localhost",
    "com.example.app:/callback",
    "com.example.app://callback",
  ])("may be %s", (uri) => {
    expect(isRedirect(uri)).toBe(true);
  });

  it.each([
    ["plain http elsewhere", "http://app.example/callback"],
    ["a host that only begins like a loopback address", "http://127.0.0.1.evil.example/callback"],
    ["a host that only begins with localhost", "http://localhost.evil.example/"],
    ["a name before a loopback address", "http://localhost@evil.example/"],
    ["a name and a password", "https://me:secret@app.example/callback"],
    ["a fragment", "https://app.example/callback#here"],
    ["an empty fragment", "https://app.example/callback#"],
    ["a script", "javascript:alert(1)"],
    ["data", "data:text/html,x"],
    ["a scheme that is nobody's", "myapp:/callback"],
    ["a path alone", "/callback"],
    ["a host without a scheme", "//app.example/callback"],
    ["a space", "https://app.example/call back"],
    ["a line's end", "https://app.example/callback\n"],
    ["a backslash", "https://app.example\\@evil.example/"],
    ["letters that look like others", "https://аpp.example/"],
    ["nothing", ""],
  ])("is not %s", (_, uri) => {
    expect(isRedirect(uri)).toBe(false);
  });
});

describe("an address that is asked for", () => {
  const registered = ["https://app.example/callback", "http://127.0.0.1/callback", "com.example.app:/callback"];

  it.each([...registered, "http://127.0.0.1:1/callback", "http://127.0.0.1:65535/callback"])("is known: %s", (uri) => {
    expect(isRegistered(registered, uri)).toBe(true);
  });

  it.each([
    ["a slash more", "https://app.example/callback/"],
    ["a query more", "https://app.example/callback?a=b"],
    ["a fragment", "https://app.example/callback#a"],
    ["another letter's case", "https://app.example/Callback"],
    ["another spelling of the host", "https://APP.example/callback"],
    ["a port, which only a loopback address may choose", "https://app.example:443/callback"],
    ["a path above", "https://app.example/callback/../callback"],
    ["a host below it", "https://www.app.example/callback"],
    ["a host behind it", "https://app.example.evil.example/callback"],
    ["another loopback address", "http://[::1]/callback"],
    ["a loopback address by its name", "http://localhost/callback"],
    ["another path there", "http://127.0.0.1:8080/other"],
    ["a port that there isn't", "http://127.0.0.1:65536/callback"],
    ["a name before the port", "http://127.0.0.1:80@evil.example/callback"],
    ["a host that begins so", "http://127.0.0.1.evil.example/callback"],
    ["another scheme on it", "https://127.0.0.1/callback"],
    ["a path of the program's own scheme", "com.example.app:/other"],
    ["nothing", ""],
  ])("is not known by %s", (_, uri) => {
    expect(isRegistered(registered, uri)).toBe(false);
  });

  it("is known by no other letter than those that were registered, but in a loopback's port", () => {
    fc.assert(
      fc.property(fc.webUrl({ withQueryParameters: true }), fc.webUrl(), (one, other) => {
        expect(isRegistered([one], one)).toBe(true);
        expect(isRegistered([one], other)).toBe(one === other);
        expect(isRegistered([one], `${one}x`)).toBe(false);
      }),
    );
  });
});

it("adds an answer to an address as its query, whatever is in both, and nothing that is null", () => {
  expect(redirectTo("https://a.example/?x=1", { code: "c&d", state: null })).toBe("https://a.example/?x=1&code=c%26d");
  expect(redirectTo("com.example.app:/cb", { code: "c" })).toBe("com.example.app:/cb?code=c");
  fc.assert(
    fc.property(fc.string(), (state) => {
      const url = new URL(redirectTo("https://a.example/cb", { state, iss: "https://b.example" }));
      const kept = state.isWellFormed() ? state : new URLSearchParams({ state }).get("state");
      expect([url.host, url.searchParams.get("state"), url.searchParams.getAll("iss").length]).toEqual([
        "a.example",
        kept,
        1,
      ]);
    }),
  );
});
