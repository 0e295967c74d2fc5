// A card per policy: its limit, its chart, and the same in figures, which are the chart's legend too.

import { BandChart } from "./chart.js";
import { byId, el, setAttributes, setText } from "./dom.js";
import { BANDS, figures } from "./history.js";
import { perSecond } from "./requests.js";
import { amount, plural, rate } from "./words.js";

const ROWS = ["allowed", "denied", "degraded", "undecided"];

export class Policies {
  #cards = new Map();

  // `details` is what /v1/policies says, by name: it may be absent, or older than the snapshot.
  update(snapshot, history, details) {
    const names = snapshot.policies.map(({ name }) => name).sort();
    for (const [name, card] of this.#cards) {
      if (!names.includes(name)) {
        card.element.remove();
        this.#cards.delete(name);
      }
    }
    names.forEach((name, index) => {
      if (!this.#cards.has(name)) {
        const card = new Card(name);
        this.#cards.set(name, card);
        byId("policies").insertBefore(card.element, byId("policies").children[index] ?? null);
      }
    });
    for (const policy of snapshot.policies) {
      this.#cards.get(policy.name).update(policy, history, details.get(policy.name));
    }
  }
}

class Card {
  #name;
  #limit = el("p", { class: "limit" });
  #tags = el("p", { class: "tags" });
  #more = el("p", { class: "muted small" });
  #rows = new Map();
  #chart;

  constructor(name) {
    this.#name = name;
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
    this.element = el("li", { class: "card" }, head, this.#limit, picture, figuresTable, this.#more);
    this.#chart = new BandChart(picture, BANDS);
  }

  update(policy, history, details) {
    const { limit_text: limit, shadow } = policy;
    setText(this.#limit, limit);
    this.#tag({ shadow, overrides: details?.overrides ?? 0, leases: Boolean(details?.lease) });
    const told = [];
    for (const [id, { row, head, cells }] of this.#rows) {
      const name = id === "denied" && shadow ? "would deny" : id;
      const figure = figures(history, ({ policies }) => policies.get(this.#name)?.[id]);
      setText(head.lastElementChild, name);
      const texts = [rate(figure.now), rate(figure.peak), amount(figure.total)];
      cells.forEach((cell, index) => setText(cell, texts[index]));
      setAttributes(row, { "data-none": figure.total === 0 });
      told.push(`${name} ${texts[0]} per second, at most ${texts[1]}`);
    }
    const near = figures(history, ({ policies }) => policies.get(this.#name)?.near);
    const cost = figures(history, ({ policies }) => policies.get(this.#name)?.cost);
    setText(this.#more, `Cost admitted: ${rate(cost.now)}/s. Near the limit: ${plural(near.total, "check", "checks")} in 5 min.`);
    const points = history.points.map(({ at, seconds, policies }) => ({
      at,
      rates: seconds && perSecond(policies.get(this.#name), seconds),
    }));
    this.#chart.update(points, history.now, `Checks of ${this.#name} in the last 5 minutes: ${told.join("; ")}.`);
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
