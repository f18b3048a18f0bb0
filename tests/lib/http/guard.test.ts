import { describe, expect, it } from "vitest";
import { judgeUrl } from "../../../lib/http/guard.ts";

const allowed = `
https://example.com
http://example.com/path?query=1#part
https://api.example.com:8443/v1
https://EXAMPLE.com
https://sub.domain.example.co.uk
https://münchen.example
https://xn--mnchen-3ya.example
https://my_host.example.com
https://8.8.8.8
https://1.1.1.1:53/
https://100.63.255.255
https://100.128.0.1
https://172.15.255.255
https://172.32.0.1
https://192.167.1.1
https://198.17.0.1
https://223.255.255.255
https://[2606:4700:4700::1111]
https://[2001:4860:4860::8888]/
https://[2606:4700:4700:1:2:3:4:1111]
https://[2000::1]
https://[2000:1::]
https://[3fff:1000::1]
https://[3ffe:ffff::1]
https://[2001:200::1]
https://[2001:db9::1]
https://[2003::1]
https://[2620:50::1]
https://[2620:4e:8000::1]
https://a-b_c.example.com
https://localhost.example.com
https://internal.example.com
https://10.example.com
`.trim();

const refused = `
ftp://example.com
file:///etc/passwd
data:text/plain,hi
javascript:alert(1)
ws://example.com
//example.com
example.com
https:example.com
https:/example.com
https:///example.com
http://
https://user@example.com
https://user:pass@example.com
https://@example.com
https://example.com@10.0.0.1
http://localhost
http://LOCALHOST:8080
http://a.localhost
http://localhost.
http://example.com.
http://printer.local
http://db.internal
http://metadata.google.internal
http://router.lan
http://nas.home.arpa
http://wiki.corp
http://abc.onion
http://metadata
http://intranet/
http://a
http://0.0.0.0
http://0.1.2.3
http://10.0.0.1
http://10.255.255.255
http://100.64.0.1
http://100.100.100.200
http://100.127.255.255
http://127.0.0.1
http://127.0.0.1:8787
http://127.255.255.254
http://169.254.169.254
http://169.254.169.254/latest/meta-data
http://172.16.0.1
http://172.31.255.255
http://192.0.0.1
http://192.0.2.5
http://192.88.99.1
http://192.168.0.1
http://198.18.0.1
http://198.19.255.255
http://198.51.100.7
http://203.0.113.9
http://224.0.0.1
http://239.255.255.255
http://240.0.0.1
http://255.255.255.255
http://127.1
http://127.0.1
http://2130706433
http://0x7f000001
http://0x7f.1
http://0177.0.0.1
http://017700000001
http://0x08080808
http://134744072
http://8.8.2056
http://008.8.8.8
http://127.0.0.1.
http://%31%32%37.0.0.1
http://127%2e0.0.1
http://１２７.0.0.1
http://①②⑦.⓪.⓪.①
http://127。0。0。1
http://localhost%00.example.com
http://exa mple.com
http://exam\tple.com
http://example.com\\@10.0.0.1
http://10.0.0.1\\.example.com
http://[::]
http://[::1]
http://[0:0:0:0:0:0:0:1]
http://[::ffff:127.0.0.1]
http://[::ffff:7f00:1]
http://[::ffff:8.8.8.8]
http://[::127.0.0.1]
http://[::7f00:1]
http://[64:ff9b::7f00:1]
http://[64:ff9b:1::1]
http://[100::1]
http://[2001::1]
http://[2001:0:7f00:1::]
http://[2001:2::1]
http://[2001:10::1]
http://[2001:20::1]
http://[2001:db8::1]
http://[2002:7f00:1::]
http://[3fff::1]
http://[3fff:fff::1]
http://[4000::1]
http://[fc00::1]
http://[fd12:3456::1]
http://[fe80::1]
http://[fe80::1%25eth0]
http://[fe80::1%eth0]
http://[fec0::1]
http://[ff02::1]
http://[::1
http://127.0.0.1.nip.io
http://10-0-0-1.sslip.io
http://localtest.me
http://example.com:99999
http://.example.com
http://a..example.com
http://1.2.3.4.5
http://256.256.256.256
http://example.0x1
http://%65xample.com
http://a*b.example.com
http://a'b.example.com
http://a,b.example.com
http://a;b.example.com
http://a$b.example.com
http://a~b.example.com
http://[2001:1ff:ffff::1]
http://[2002::1]
http://[2002:ffff::1]
http://[2620:4f:8000::1]
http://[1fff::1]
`.trim();

const unescaped = (line: string) => line.replaceAll("\\t", "\t");

describe("the guard", () => {
  for (const url of allowed.split("\n")) {
    it(`lets ${url} through`, () => expect(judgeUrl(url)).toHaveProperty("url"));
  }
  for (const line of refused.split("\n")) {
    it(`refuses ${line}`, () => expect(judgeUrl(unescaped(line))).toHaveProperty("refused"));
  }
  it("refuses what is endlessly long", () => {
    const address = (length: number) => "https://example.com/".padEnd(length, "a");
    expect(judgeUrl(address(8192))).toHaveProperty("url");
    expect(judgeUrl(address(8193))).toHaveProperty("refused");
    expect(judgeUrl(`https://${"a".repeat(63)}.com`)).toHaveProperty("url");
    expect(judgeUrl(`https://${"a".repeat(64)}.com`)).toHaveProperty("refused");
    const host = (length: number) => `${"a.".repeat(125)}com`.padStart(length, "b");
    expect(judgeUrl(`https://${host(253)}`)).toHaveProperty("url");
    expect(judgeUrl(`https://${host(254)}`)).toHaveProperty("refused");
  });
  it("refuses all names of networks inside, and of services that lead to any address", () => {
    const inside =
      "localhost local localdomain internal intranet private corp home lan arpa onion alt consul cluster svc";
    for (const name of inside.split(" "))
      expect([name, judgeUrl(`http://a.b.${name}`)]).toEqual([name, { refused: "the host is not a public name" }]);
    for (const name of "nip.io sslip.io xip.io localtest.me lvh.me vcap.me traefik.me".split(" ")) {
      expect([name, judgeUrl(`http://${name}`)]).toEqual([name, { refused: "the host leads anywhere" }]);
      expect([name, judgeUrl(`http://a.${name}`)]).toEqual([name, { refused: "the host leads anywhere" }]);
      expect(judgeUrl(`http://a${name}`)).toHaveProperty("url");
    }
  });

  const number = (address: string) => address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
  const address = (number: number) => [24, 16, 8, 0].map((shift) => (number >>> shift) & 255).join(".");
  for (const [first, last] of [
    ["0.0.0.0", "0.255.255.255"],
    ["10.0.0.0", "10.255.255.255"],
    ["100.64.0.0", "100.127.255.255"],
    ["127.0.0.0", "127.255.255.255"],
    ["169.254.0.0", "169.254.255.255"],
    ["172.16.0.0", "172.31.255.255"],
    ["192.0.0.0", "192.0.0.255"],
    ["192.0.2.0", "192.0.2.255"],
    ["192.31.196.0", "192.31.196.255"],
    ["192.52.193.0", "192.52.193.255"],
    ["192.88.99.0", "192.88.99.255"],
    ["192.168.0.0", "192.168.255.255"],
    ["192.175.48.0", "192.175.48.255"],
    ["198.18.0.0", "198.19.255.255"],
    ["198.51.100.0", "198.51.100.255"],
    ["203.0.113.0", "203.0.113.255"],
    ["224.0.0.0", "255.255.255.255"],
  ] as const) {
    it(`refuses ${first} to ${last}, and neither neighbour`, () => {
      const [from, to] = [number(first), number(last)];
      for (const inside of [first, address(from + 1), address(Math.floor((from + to) / 2)), address(to - 1), last]) {
        expect([inside, judgeUrl(`http://${inside}`)]).toEqual([
          inside,
          { refused: "the host is a private or reserved address" },
        ]);
      }
      for (const outside of [from - 1, to + 1].filter((one) => one >= 0 && one <= 0xffffffff)) {
        expect([address(outside), judgeUrl(`http://${address(outside)}`)]).toEqual([
          address(outside),
          { url: expect.any(URL) },
        ]);
      }
    });
  }
  it("refuses every number of the private networks, however it is written", () => {
    for (const [a, b] of [
      [10, 0],
      [127, 0],
      [169, 254],
      [172, 20],
      [192, 168],
    ] as const) {
      const number = ((a << 24) | (b << 16) | (3 << 8) | 4) >>> 0;
      const spellings = [
        `${a}.${b}.3.4`,
        String(number),
        `0x${number.toString(16)}`,
        `0${number.toString(8)}`,
        `0x${a.toString(16)}.0x${b.toString(16)}.3.4`,
        `0${a.toString(8)}.${b}.3.4`,
        `${a}.${b}.772`,
        `[::ffff:${a}.${b}.3.4]`,
        `[64:ff9b::${a}.${b}.3.4]`,
      ];
      for (const host of spellings)
        expect([host, judgeUrl(`http://${host}/`)]).toEqual([host, { refused: expect.any(String) }]);
    }
  });

  it("opens this machine where it is told to: by http, in its plain spelling, and nothing else", () => {
    const opened = (url: string) => "url" in judgeUrl(url, { loopback: true });
    for (const url of ["http://localhost", "http://127.0.0.1:8787/a?b", "http://127.1.2.3", "http://[::1]:1/"]) {
      expect([url, opened(url), "url" in judgeUrl(url)]).toEqual([url, true, false]);
    }
    for (const url of [
      ...["https://localhost", "https://127.0.0.1", "http://a@localhost", "http://local%68ost", "http://localhost."],
      ...[
        "http://a.localhost",
        "http://localhost.example",
        "http://10.0.0.1",
        "http://[::2]",
        "http://[::ffff:127.0.0.1]",
      ],
      ...["http://169.254.169.254", "http://0.0.0.0", "ftp://localhost", "http://intranet"],
    ]) {
      const judged = "url" in judgeUrl(url);
      expect([url, opened(url)]).toEqual([url, judged]);
    }
  });
});
