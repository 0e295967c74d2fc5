// A card per policy: its limit, its chart, and the same in figures, which are the chart's legend too.

import { BandChart } from "./chart.js";
import { byId, el, setAttributes, setText } from "./dom.js";
import { BANDS, figures } from "./history.js";
import { perSecond } from "./requests.js";
import { amount, plural, rate } from "./words.js";

const ROWS = ["allowed", "denied", "degraded", "undecided"];

// How cards can be ordered: by what counts for each, the most first; and by name where that is the same.
const ORDERS = {
  name: () => 0,
  denied: ({ denied, undecided }) => denied + undecided,
  busy: ({ allowed, denied, degraded, undecided }) => allowed + denied + degraded + undecided,
};
// What jumps each second can't be read.
const ORDERED_FOR_MS = 10_000;

export class Policies {
  #cards = new Map();
  #orderedAt = 0;

  constructor() {
    byId("order").addEventListener("change", () => this.#order());
  }

  // `details` is what /v1/policies says, by name: it may be absent, or older than the snapshot.
  update(snapshot, history, details) {
    const names = new Set(snapshot.policies.map(({ name }) => name));
    for (const [name, card] of this.#cards) {
      if (!names.has(name)) {
        card.element.remove();
        this.#cards.delete(name);
      }
    }
    let isNew = false;
    for (const policy of snapshot.policies) {
      const { name } = policy;
      if (!this.#cards.has(name)) {
        this.#cards.set(name, new Card(name));
        isNew = true;
      }
      this.#cards.get(name).update(policy, history, details.get(name));
    }
    if (isNew || history.now - this.#orderedAt >= ORDERED_FOR_MS) {
      this.#orderedAt = history.now;
      this.#order();
    }
  }

  #order() {
    const most = ORDERS[byId("order").value];
    const cards = [...this.#cards.values()].sort((a, b) => most(b.totals) - most(a.totals) || (a.name < b.name ? -1 : 1));
    const list = byId("policies");
    cards.forEach(({ element }, index) => {
      if (list.children[index] !== element) list.insertBefore(element, list.children[index] ?? null);
    });
  }
}

class Card {
  // Of the last minutes, by outcome.
  totals = {};
  #limit = el("p", { class: "limit" });
  #tags = el("p", { class: "tags" });
  #more = el("p", { class: "muted small" });
  #rows = new Map();
  #chart;

  constructor(name) {
    this.name = name;
    const body = el("tbody");
    for (const id of ROWS) {
      const head = el("th", { scope: "row" }, el("span", { class: `swatch ${id}` }), el("span", {}, id));
      const cells = [el("td"), el("td"), el("td")];
      const row = el("tr", {}, head, ...cells);
      this.#rows.set(id, { row, head, cells });
      body.append(row);
    }
    const heads = [el("th", {}, el("span", { class: "hidden" }, "outcome"))];
    for (const text of ["now", "peak", "in 5 min"]) heads.push(el("th", { scope: "col" }, text));
    const picture = el("div");
    const figuresTable = el(
      "table",
      { class: "figures" },
      el("caption", { class: "hidden" }, `Checks of ${name}: per second now, per second at most, and how many in 5 minutes`),
      el("thead", {}, el("tr", {}, ...heads)),
      body,
    );
    const head = el("div", { class: "head" }, el("h3", {}, name), this.#tags);
    this.element = el("li", { class: "card", "data-policy": name }, head, this.#limit, picture, figuresTable, this.#more);
    this.#chart = new BandChart(picture, BANDS);
  }

  update(policy, history, details) {
    const { limit_text: limit, shadow } = policy;
    setText(this.#limit, limit);
    this.#tag({ shadow, overrides: details?.overrides ?? 0, leases: Boolean(details?.lease) });
    const told = [];
    for (const [id, { row, head, cells }] of this.#rows) {
      const name = id === "denied" && shadow ? "would deny" : id;
      const figure = figures(history, ({ policies }) => policies.get(this.name)?.[id]);
      setText(head.lastElementChild, name);
      this.totals[id] = figure.total;
      const texts = [rate(figure.now), rate(figure.peak), amount(figure.total)];
      cells.forEach((cell, index) => setText(cell, texts[index]));
      setAttributes(row, { "data-none": figure.total === 0 });
      told.push(`${name} ${texts[0]} per second, at most ${texts[1]}`);
    }
    const near = figures(history, ({ policies }) => policies.get(this.name)?.near);
    const cost = figures(history, ({ policies }) => policies.get(this.name)?.cost);
    setText(this.#more, `Cost admitted: ${rate(cost.now)}/s. Near the limit: ${plural(near.total, "check", "checks")} in 5 min.`);
    const points = history.points.map(({ at, seconds, policies }) => ({
      at,
      rates: seconds && perSecond(policies.get(this.name), seconds),
    }));
    this.#chart.update(points, history.now, `Checks of ${this.name} in the last 5 minutes: ${told.join("; ")}.`);
  }

  #tag({ shadow, overrides, leases }) {
    const texts = [
      shadow && "shadow: never denies",
      overrides > 0 && plural(overrides, "override", "overrides"),
      leases && "leases",
    ].filter(Boolean);
    const known = [...this.#tags.children].map((tag) => tag.textContent);
    if (known.join() !== texts.join()) this.#tags.replaceChildren(...texts.map((text) => el("span", { class: "tag" }, text)));
  }
}
