// What came of requests: the large numbers, and their chart.

import { BandChart } from "./chart.js";
import { byId, el, setAttributes, setText } from "./dom.js";
import { BANDS, figures } from "./history.js";
import { amount, count, rate } from "./words.js";

// In the order of what one asks first.
const NUMBERS = [
  { id: "allowed", means: "passed" },
  { id: "denied", means: "were over a limit" },
  { id: "degraded", means: "were decided without the store", level: "warn" },
  { id: "undecided", means: "got no decision", level: "bad" },
];

export class Requests {
  #numbers = new Map();
  #chart = new BandChart(byId("requests-chart"), BANDS);

  constructor() {
    for (const { id, means, level } of NUMBERS) {
      const [value, total] = [el("dd", { class: "value" }, "–"), el("dd", { class: "muted small" })];
      const box = el("div", { class: "number" }, el("dt", {}, el("span", { class: `swatch ${id}` }), id), value, total);
      byId("numbers").append(box);
      this.#numbers.set(id, { box, value, total, means, level });
    }
  }

  update(history) {
    const told = [];
    for (const [id, { box, value, total, means, level }] of this.#numbers) {
      const figure = figures(history, ({ requests }) => requests[id]);
      setText(value, `${rate(figure.now)}/s`);
      setText(total, `${amount(figure.total)} ${means} in 5 min`);
      // While it goes on, not for as long as the chart remembers it.
      setAttributes(box, { "data-none": figure.total === 0, "data-level": figure.now > 0 && level });
      told.push(`${id} ${rate(figure.now)} per second, at most ${rate(figure.peak)}`);
    }
    const [refused, abandoned] = ["refused", "abandoned"].map((id) => figures(history, ({ requests }) => requests[id]));
    setText(
      byId("requests-more"),
      `Besides, in 5 min: ${count(refused.total)} refused (such as for a policy that does not exist), ` +
        `${count(abandoned.total)} abandoned (whoever asked was gone).`,
    );
    const points = history.points.map(({ at, seconds, requests }) => ({ at, rates: seconds && perSecond(requests, seconds) }));
    this.#chart.update(points, history.now, `Requests of the last 5 minutes: ${told.join("; ")}.`);
  }
}

export function perSecond(counts, seconds) {
  return Object.fromEntries(BANDS.map((id) => [id, (counts?.[id] ?? 0) / seconds]));
}
