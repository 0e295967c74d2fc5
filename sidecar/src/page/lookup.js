// One key: what is kept of it, what a check would be answered, and forgetting it.

import { askJson } from "./api.js";
import { byId, el, setPairs, setText } from "./dom.js";
import { parse, path, print, shown } from "./key.js";
import { count, duration } from "./words.js";

export class Lookup {
  #policies = [];
  // Answers to older questions than the last are dropped.
  #question = 0;

  constructor({ onRefused }) {
    this.onRefused = onRefused;
    byId("lookup-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#inspect();
    });
    byId("key").addEventListener("input", () => this.#echo());
    byId("peek").addEventListener("click", () => this.#peek());
    byId("reset").addEventListener("click", () => this.#askFirst());
    byId("sure-no").addEventListener("click", () => byId("sure").close());
    byId("sure-yes").addEventListener("click", () => {
      byId("sure").close();
      this.#reset();
    });
    this.#echo();
  }

  // The names that can be chosen.
  update(names) {
    if (names.join() === this.#policies.join()) return;
    this.#policies = names;
    const select = byId("policy");
    const chosen = select.value;
    select.replaceChildren(...names.map((name) => el("option", { value: name }, name)));
    if (names.includes(chosen)) select.value = chosen;
  }

  // Fills in a key of the tables, and shows what is kept of it.
  choose(policy, key) {
    byId("policy").value = policy;
    byId("key").value = print(key);
    this.#echo();
    byId("lookup").scrollIntoView({ block: "start" });
    byId("key").focus({ preventScroll: true });
    this.#inspect();
  }

  // Shows how the text is understood.
  #echo() {
    const told = byId("key-parts");
    byId("key").removeAttribute("aria-invalid");
    try {
      const parts = parse(byId("key").value);
      const words = { 0: "No parts: the bucket that all share. ", 1: "One part: " }[parts.length] ?? `${parts.length} parts: `;
      told.replaceChildren(words, ...(parts.length > 0 ? shown(parts) : []));
    } catch (error) {
      byId("key").setAttribute("aria-invalid", "true");
      told.replaceChildren(el("span", { class: "problem" }, error.message));
    }
  }

  #inspect() {
    return this.#ask("keys", {}, (answer) => [
      answer.unlimited ? "This key has no limit." : `${count(answer.remaining)} remaining.`,
      [
        ["Limit", answer.unlimited ? "none: an override frees it" : answer.limit_text],
        ["Resets", answer.unlimited ? "" : resets(answer.reset_ms)],
        ["Means", answer.meaning],
        ["Kept", answer.state ?? "nothing: it has not been charged lately"],
        ["For", answer.ttl_ms === null ? "" : `${duration(answer.ttl_ms)} more`],
        ["Redis key", answer.redis_key],
      ],
    ]);
  }

  #peek() {
    const cost = byId("cost");
    if (!cost.reportValidity()) return undefined;
    const asked = Number(cost.value || 1);
    return this.#ask("peek", { query: `?cost=${asked}` }, (verdict) => [
      peeked(verdict, asked),
      verdict.unlimited
        ? []
        : [
            ["Limit", `${count(verdict.limit)} per ${duration(verdict.period_ms)}`],
            ["Remaining", count(verdict.remaining)],
            ["Resets", resets(verdict.reset_ms)],
            ["Retry after", verdict.allowed ? "" : retry(verdict.retry_after_ms)],
            ["Degraded", verdict.degraded ? "the store can't tell; this is what on_store_error says" : ""],
          ],
    ]);
  }

  #reset() {
    return this.#ask("keys", { method: "DELETE" }, ({ existed }) => [
      existed ? "Reset: what was kept is forgotten, and the whole limit is there again." : "There was nothing to reset.",
      [],
    ]);
  }

  #askFirst() {
    try {
      const policy = byId("policy").value;
      const parts = parse(byId("key").value);
      path(policy, parts);
      setText(byId("sure-text"), "");
      byId("sure-text").append(
        "What has been counted for ", ...shown(parts), ` under ${policy} is forgotten, for every sidecar with this store. `,
        "The whole limit can be used again from now on. This can't be undone.",
      );
      byId("sure").showModal();
    } catch (error) {
      this.#fail(error);
    }
  }

  // Asks a route about the key of the form, and shows what `words` makes of the answer: a sentence and pairs.
  async #ask(route, { query = "", method }, words) {
    const question = ++this.#question;
    try {
      const parts = parse(byId("key").value);
      const policy = byId("policy").value;
      const answer = await askJson(`v1/${route}/${path(policy, parts)}${query}`, { method });
      if (question !== this.#question) return;
      const [sentence, pairs] = words(answer);
      const list = el("dl", { class: "facts" });
      setPairs(list, pairs);
      const about = el("p", { class: "muted small" }, `${policy}: `, ...shown(parts));
      byId("result").replaceChildren(el("div", { class: "answer" }, about, el("p", { class: "sentence" }, sentence), list));
    } catch (error) {
      if (question === this.#question) this.#fail(error);
    }
  }

  #fail(error) {
    if (error.status === 401) this.onRefused(error);
    else byId("result").replaceChildren(el("p", { class: "problem" }, error.message));
  }
}

const resets = (ms) => (ms > 0 ? `in ${duration(ms)}, if nothing else is taken` : "the whole limit is there");

const retry = (ms) => (ms === null ? "never: waiting doesn't help" : duration(ms));

function peeked({ allowed, unlimited, shadow }, cost) {
  const check = `a check of cost ${count(cost)}`;
  if (unlimited) return `Allowed: this key has no limit.`;
  if (allowed) return `Allowed: ${check} would pass now.`;
  return shadow ? `Would deny ${check}, but the policy is only tried out.` : `Denied: ${check} would not pass now.`;
}
