// What the page's modules compute, asked of them in the browser that they are made for.

import assert from "node:assert/strict";

export async function assertModules(page) {
  const found = await page.evaluate(async () => {
    const [key, latency, history, chart, words] = await Promise.all(
      ["key", "latency", "history", "chart", "words"].map((name) => import(`/page/${name}.js`)),
    );
    const caught = (run) => {
      try {
        return run();
      } catch (error) {
        return `refused: ${error.message}`;
      }
    };
    const keys = [[], [""], ["a"], ["a", "b"], ["", "a"], ["a", ""], ["", ""], ["a/b", "50%"], [" a "], ["a\nb"], ["%2F"],
      ["é", "日本"], ["a\u202Eb"], ["?x=1#y"], ["+"], ["\u0000"]];
    const bounds = [0.001, 0.01, 0.1];
    const snapshot = (second, uptime, allowed, more = {}) => ({
      now_ms: second * 1000,
      uptime_s: uptime,
      requests: { allowed, denied: 0, degraded_allowed: 1, degraded_denied: 2, refused: 0, undecided: 0, abandoned: 0 },
      latency: { counts: [allowed, 0] },
      policies: [{ name: "p", decisions: { allowed, unlimited: 1 }, near_limit: 0, cost_admitted: allowed }],
      ...more,
    });
    const seen = (...snapshots) => {
      const past = new history.History();
      for (const one of snapshots) past.push(one);
      return past.points.map(({ seconds, requests }) => (seconds ? requests.allowed / seconds : "hole"));
    };
    const past = new history.History();
    for (let second = 0; second <= 400; second += 1) past.push(snapshot(1000 + second, second, second * 3));
    const allowed = history.figures(past, ({ requests }) => requests.allowed);
    return {
      trips: keys.map((parts) => [parts, key.parse(key.print(parts))]),
      typed: ["acme", "/acme", "a%2Fb/c", "/", "//"].map(key.parse),
      bad: caught(() => key.parse("50%")),
      paths: [["p", ["a/b", "c d"]], ["p", []], ["p", [""]], ["p", ["?#%"]]].map(([policy, parts]) => key.path(policy, parts)),
      dots: [[".."], ["a", "."], ["..", "q"]].map((parts) => caught(() => key.path("p", parts))),
      quantiles: [
        latency.quantile(bounds, [10, 0, 0, 0], 0.5),
        latency.quantile(bounds, [50, 50, 0, 0], 0.99),
        latency.quantile(bounds, [0, 0, 0, 1], 0.5),
        latency.quantile(bounds, [0, 0, 0, 0], 0.5),
      ],
      steady: seen(snapshot(1, 1, 10), snapshot(2, 2, 30), snapshot(4, 4, 40)),
      restarted: seen(snapshot(1, 9, 10), snapshot(2, 0, 30), snapshot(3, 1, 31)),
      lessThanBefore: seen(snapshot(1, 1, 10), snapshot(2, 2, 5), snapshot(3, 3, 6)),
      away: seen(snapshot(1, 1, 10), snapshot(60, 60, 700), snapshot(61, 61, 710)),
      setBack: seen(snapshot(100, 1, 10), snapshot(101, 2, 11), snapshot(50, 3, 12), snapshot(51, 4, 14)),
      kept: past.points.length,
      allowed,
      tops: [0, 3, 7, 11, 1000, 1001].map(chart.roundedUp),
      words: [words.rate(0), words.rate(0.01), words.rate(3), words.rate(1234), words.duration(999.2), words.duration(61_000),
        words.duration(3_600_000), words.duration(90_061_000), words.latency(0.00042), words.amount(12_345_678)],
    };
  });
  for (const [parts, back] of found.trips) assert.deepEqual(back, parts);
  assert.deepEqual(found.typed, [["acme"], ["acme"], ["a/b", "c"], [""], ["", ""]]);
  assert.match(found.bad, /^refused: .*%25/);
  assert.deepEqual(found.paths, ["p/a%2Fb/c%20d", "p", "p/", "p/%3F%23%25"]);
  for (const answer of found.dots) assert.match(answer, /^refused: /);
  assert.ok(Math.abs(found.quantiles[0] - 0.0005) < 1e-9 && Math.abs(found.quantiles[1] - 0.00982) < 1e-9, `${found.quantiles}`);
  assert.deepEqual(found.quantiles.slice(2), [Infinity, null]);
  assert.deepEqual(found.steady, [20, 5]);
  assert.deepEqual(found.restarted, ["hole", 1]);
  assert.deepEqual(found.lessThanBefore, ["hole", 1]);
  assert.deepEqual(found.away, ["hole", 10]);
  assert.deepEqual(found.setBack, [2]);
  assert.ok(found.kept > 295 && found.kept <= 301, `${found.kept} points are kept`);
  assert.ok(found.allowed.now === 3 && found.allowed.peak === 3 && found.allowed.total === 900, JSON.stringify(found.allowed));
  assert.deepEqual(found.tops, [1, 3, 8, 15, 1000, 1500]);
  assert.deepEqual(found.words, ["0", "<0.1", "3.0", "1,234", "1.0 s", "1 min 1 s", "1 h", "1 d 1 h", "0.42 ms", "12.3M"]);
}
