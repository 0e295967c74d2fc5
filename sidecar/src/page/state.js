// The state line, what is wrong in plain words, and the configuration in force.

import { announce, byId, el, setBadge, setPairs, setText } from "./dom.js";
import { clock, duration, plural } from "./words.js";

export class State {
  #alerts = "";

  update(snapshot) {
    const { config, store, version, uptime_s: uptime, now_ms: now } = snapshot;
    setText(byId("about"), `${version}, up for ${duration(uptime * 1000)}`);
    setBadge(byId("store"), ...storeState(store));
    setBadge(byId("breaker"), ...breakerState(store));
    setBadge(byId("configuration"), ...configState(config));
    const wrong = whatIsWrong(snapshot);
    this.#alert(wrong);
    // That all is well is told only to who heard otherwise before.
    if (wrong.length > 0) announce(wrong.map(({ title }) => title).join(". "));
    else if (byId("announcement").textContent !== "") announce("All is well");
    document.title = wrong.length > 0 ? `${wrong[0].title} – Sluice` : "Sluice";
    setPairs(byId("config"), [
      ["File", config.file],
      ["Generation", String(config.generation)],
      ["In force since", clock(config.loaded_at_ms, now)],
      ["Policies", String(snapshot.policies.length)],
      ["Store", store.address],
      ["Waits for a restart", config.restart_needed.join(", ")],
    ]);
  }

  #alert(wrong) {
    const drawn = JSON.stringify(wrong);
    if (drawn === this.#alerts) return;
    this.#alerts = drawn;
    byId("alerts").replaceChildren(
      ...wrong.map(({ level, title, text, detail }) =>
        el(
          "div",
          { class: "alert", "data-level": level },
          el("strong", {}, title),
          el("p", {}, text),
          ...(detail ? [el("p", { class: "detail" }, detail)] : []),
        ),
      ),
    );
  }
}

function storeState({ state, address, in_flight: inFlight }) {
  const level = { up: "ok", down: "bad" }[state] ?? "unknown";
  const words = { up: "Store up", down: "Store down" }[state] ?? "Store not heard of yet";
  const asked = inFlight > 0 ? `, ${plural(inFlight, "batch", "batches")} in flight` : "";
  return [level, `${words}: ${address}${asked}`];
}

function breakerState({ breaker }) {
  return breaker === "open" ? ["warn", "Breaker open: the store isn't asked"] : ["ok", "Breaker closed"];
}

function configState({ generation, error, restart_needed: restart }) {
  if (error) return ["bad", `Configuration ${generation}, and the file has an error`];
  if (restart.length > 0) return ["warn", `Configuration ${generation}, and a restart is needed`];
  return ["ok", `Configuration ${generation}`];
}

// The worst first.
function whatIsWrong({ config, store, now_ms: now }) {
  const wrong = [];
  if (store.state === "down") {
    wrong.push({
      level: "bad",
      title: "Store down",
      text: "Checks are answered as on_store_error says. It is looked for all the time; nothing needs to be restarted here.",
      detail: store.error,
    });
  }
  if (config.error) {
    wrong.push({
      level: "bad",
      title: "Configuration file not usable",
      text: `Generation ${config.generation}, of ${clock(config.loaded_at_ms, now)}, stays in force until the file is mended.`,
      detail: config.error,
    });
  }
  if (config.restart_needed.length > 0) {
    wrong.push({
      level: "warn",
      title: "Restart needed",
      text: `The file says something new about ${config.restart_needed.join(", ")}. That applies once the sidecar is restarted.`,
    });
  }
  for (const text of store.warnings ?? []) wrong.push({ level: "warn", title: "The store may lose counts", text });
  return wrong;
}
