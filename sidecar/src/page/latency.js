// How long the store took: quantiles from the counts of a histogram's buckets.

import { LineChart } from "./chart.js";
import { byId, el, setText } from "./dom.js";
import { count, latency } from "./words.js";

// What one point of the chart is about: of a single second there is often too little to tell.
const WINDOW_MS = 10_000;
const LINES = [
  { id: "p50", quantile: 0.5, label: "half were faster than this (p50)" },
  { id: "p99", quantile: 0.99, label: "99 of 100 were faster than this (p99)" },
];

// The value below which this share lies, in seconds: within a bucket all are taken to be spread evenly. `null` of
// nothing, and `Infinity` where it lies above the last bound.
export function quantile(bounds, counts, share) {
  const wanted = share * counts.reduce((total, inBucket) => total + inBucket, 0);
  if (wanted === 0) return null;
  let below = 0;
  for (const [index, inBucket] of counts.entries()) {
    if (inBucket > 0 && below + inBucket >= wanted) {
      if (index >= bounds.length) return Infinity;
      const lower = index > 0 ? bounds[index - 1] : 0;
      return lower + ((bounds[index] - lower) * (wanted - below)) / inBucket;
    }
    below += inBucket;
  }
  return Infinity;
}

export class Latency {
  #values = new Map();
  #chart;

  constructor() {
    for (const { id, label } of LINES) {
      const value = el("dd", {}, "–");
      this.#values.set(id, value);
      byId("latency-numbers").append(
        el("div", { class: `number line-${id}` }, el("dt", {}, el("span", { class: `swatch ${id}` }), id), value,
          el("dd", { class: "muted small" }, label.replace(/ \(.*/, ""))),
      );
    }
    const batches = el("dd", {}, "–");
    this.#values.set("batches", batches);
    byId("latency-numbers").append(
      el("div", { class: "number" }, el("dt", {}, "batches"), batches, el("dd", { class: "muted small" }, "in the last minute")),
    );
    this.#chart = new LineChart(byId("latency-chart"), LINES.map(({ id }) => id), latency);
  }

  update(snapshot, history) {
    const bounds = snapshot.latency.bounds_s;
    const longest = bounds[bounds.length - 1];
    const minute = sum(history.recent(60_000));
    const texts = LINES.map(({ id, quantile: share }) => {
      const text = told(quantile(bounds, minute, share), longest);
      setText(this.#values.get(id), text);
      return `${id} ${text}`;
    });
    setText(this.#values.get("batches"), count(minute.reduce((total, inBucket) => total + inBucket, 0)));
    const points = history.points.map((point, index) => ({
      at: point.at,
      values: point.seconds ? values(history.points, index, bounds) : null,
    }));
    this.#chart.update(points, history.now, `Store latency, last 5 minutes. In the last minute: ${texts.join(", ")}.`);
  }
}

function values(points, index, bounds) {
  const { at } = points[index];
  const window = [];
  for (let back = index; back >= 0 && points[back].at > at - WINDOW_MS && points[back].seconds; back -= 1) {
    window.push(points[back]);
  }
  const counts = sum(window);
  const longest = bounds[bounds.length - 1];
  return LINES.map(({ quantile: share }) => {
    const value = quantile(bounds, counts, share);
    return value === null ? null : Math.min(value, longest);
  });
}

function sum(points) {
  const total = [];
  for (const { latency: counts } of points) {
    counts.forEach((inBucket, index) => {
      total[index] = (total[index] ?? 0) + inBucket;
    });
  }
  return total;
}

function told(seconds, longest) {
  if (seconds === null) return "–";
  return seconds === Infinity ? `over ${latency(longest)}` : latency(seconds);
}
