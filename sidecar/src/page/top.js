// The hottest and the most denied keys. A key is a button that takes it to the look-up.

import { byId, el, setAttributes, setText } from "./dom.js";
import { shown } from "./key.js";
import { count } from "./words.js";

// On a screen at 3 in the morning more would be read by nobody.
const ROWS = 10;

export class Top {
  #tables;

  // `choose(policy, key)` is called with the key that was chosen.
  constructor(choose) {
    this.#tables = [
      new Table(byId("hottest"), "Hottest", "checks", choose),
      new Table(byId("most-denied"), "Most denied", "denied", choose),
    ];
  }

  update({ window_s: seconds, hottest, most_denied: mostDenied }) {
    setText(byId("window"), `in the last ${count(seconds)} s`);
    this.#tables[0].update(hottest);
    this.#tables[1].update(mostDenied);
  }
}

class Table {
  #body = el("tbody");
  #held = el("span", { class: "muted small" });
  #none = el("p", { class: "muted" }, "None yet.");
  #table;
  #drawn = "";
  #choose;

  constructor(parent, title, counted, choose) {
    this.#choose = choose;
    const heads = ["policy", "key", counted].map((text) => el("th", { scope: "col" }, text));
    this.#table = el(
      "table",
      { class: "keys-table", hidden: "" },
      el("caption", { class: "hidden" }, title),
      el("thead", {}, el("tr", {}, ...heads)),
      this.#body,
    );
    parent.append(el("div", { class: "head" }, el("h3", {}, title), this.#held), this.#table, this.#none);
  }

  update(entries) {
    // What one points at, or has the focus in, stays where it is.
    const isHeld = this.#table.matches(":hover, :focus-within");
    setText(this.#held, isHeld ? "held while you choose" : "");
    const rows = entries.slice(0, ROWS);
    const drawn = JSON.stringify(rows);
    if (isHeld || drawn === this.#drawn) return;
    this.#drawn = drawn;
    setAttributes(this.#table, { hidden: rows.length === 0 ? "" : null });
    setAttributes(this.#none, { hidden: rows.length === 0 ? null : "" });
    this.#body.replaceChildren(...rows.map((entry) => this.#row(entry)));
  }

  #row({ policy, key, checks, error }) {
    const unseen = (text) => el("span", { class: "hidden" }, text);
    const button = el("button", { type: "button", class: "key" }, unseen("Look up "), ...shown(key), unseen(` of ${policy}`));
    button.addEventListener("click", () => this.#choose(policy, key));
    // A key that pushed another one out may have been counted too often: by no more than that one's count.
    const number = error > 0 ? `${count(checks - error)} to ${count(checks)}` : count(checks);
    return el("tr", {}, el("td", {}, policy), el("td", {}, button), el("td", {}, number));
  }
}
