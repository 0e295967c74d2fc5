// What changed from one snapshot to the next: snapshots hold totals, and rates are differences of these.

// How far back charts look.
export const SPAN_MS = 300_000;
// A second may last longer when a machine is busy. What is longer than this is a hole, not a slow second.
const HOLE_MS = 4000;

// Outcomes that are told apart. The first lies at the bottom of charts: what is rare, and matters, stands on a straight
// line.
export const BANDS = ["denied", "undecided", "degraded", "allowed"];

export class History {
  #last = null;
  // Each with `at` (ms, by the sidecar's clock), and with `seconds` and differences, or a hole without these.
  points = [];

  // Takes a snapshot in.
  push(snapshot) {
    const sample = sampled(snapshot);
    const last = this.#last;
    this.#last = sample;
    if (last && sample.at <= last.at) {
      // A clock that was set back: what was seen has no place in time any more.
      this.points = [];
    } else if (last) {
      this.points.push(difference(last, sample));
    }
    const from = sample.at - SPAN_MS;
    this.points = this.points.filter((point) => point.at >= from);
  }

  get now() {
    return this.#last?.at ?? 0;
  }

  // The points of the last so many milliseconds, holes left out.
  recent(ms) {
    return this.points.filter((point) => point.seconds && point.at > this.now - ms);
  }
}

// The figures of one series: `pick` takes them from a point. All are 0 when nothing has been seen.
export function figures(history, pick) {
  const sum = (points) => points.reduce((total, point) => total + (pick(point) ?? 0), 0);
  const recent = history.recent(5000);
  const seconds = recent.reduce((total, point) => total + point.seconds, 0);
  const all = history.recent(SPAN_MS);
  return {
    now: seconds > 0 ? sum(recent) / seconds : 0,
    peak: all.reduce((most, point) => Math.max(most, (pick(point) ?? 0) / point.seconds), 0),
    total: sum(all),
  };
}

// Whether the sidecar began anew is seen from its uptime; a total that went back is believed as well.
function difference(last, sample) {
  const ms = sample.at - last.at;
  const hole = { at: sample.at };
  if (ms > HOLE_MS || sample.uptime < last.uptime) return hole;
  const requests = minus(sample.requests, last.requests);
  const latency = sample.latency.map((count, index) => count - (last.latency[index] ?? 0));
  const policies = new Map();
  for (const [name, counts] of sample.policies) {
    // One that was not there before begins with the next second.
    const before = last.policies.get(name);
    if (before) policies.set(name, minus(counts, before));
  }
  const all = [...Object.values(requests), ...latency];
  for (const counts of policies.values()) all.push(...Object.values(counts));
  return all.some((change) => change < 0) ? hole : { at: sample.at, seconds: ms / 1000, requests, policies, latency };
}

function minus(counts, before) {
  return Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, count - (before[name] ?? 0)]));
}

function sampled(snapshot) {
  const { allowed, denied, undecided, refused, abandoned, ...rest } = snapshot.requests;
  return {
    at: snapshot.now_ms,
    uptime: snapshot.uptime_s,
    requests: {
      allowed,
      denied,
      undecided,
      refused,
      abandoned,
      degraded: (rest.degraded_allowed ?? 0) + (rest.degraded_denied ?? 0),
    },
    latency: snapshot.latency.counts,
    policies: new Map(snapshot.policies.map((policy) => [policy.name, checks(policy)])),
  };
}

function checks({ decisions, near_limit, cost_admitted }) {
  const of = (names) => names.reduce((total, name) => total + (decisions[name] ?? 0), 0);
  return {
    allowed: of(["allowed", "unlimited"]),
    denied: of(["denied", "shadow_denied"]),
    degraded: of(["degraded"]),
    undecided: of(["undecided"]),
    near: near_limit,
    cost: cost_admitted,
  };
}
