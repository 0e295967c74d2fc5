// The page of the admin listener: reads the sidecar's state once a second, and shows it.

import { askJson, token } from "./api.js";
import { announce, byId, setAttributes, setBadge, setText } from "./dom.js";
import { follow } from "./events.js";
import { History } from "./history.js";
import { Latency } from "./latency.js";
import { Lookup } from "./lookup.js";
import { Policies } from "./policies.js";
import { Requests } from "./requests.js";
import { State } from "./state.js";
import { Top } from "./top.js";
import { clock, duration } from "./words.js";

const past = new History();
const state = new State();
const requests = new Requests();
const policies = new Policies();
const latency = new Latency();
const lookup = new Lookup({ onRefused: refused });
const top = new Top((policy, key) => lookup.choose(policy, key));

let events;
let lostSince = null;
let details = { generation: null, byName: new Map() };

function follows() {
  events?.stop();
  setBadge(byId("connection"), "unknown", "connecting");
  events = follow("v1/events", { status, lost, refused });
}

function status(snapshot) {
  lostSince = null;
  setBadge(byId("connection"), "ok", "live");
  setAttributes(byId("board"), { hidden: null, "data-old": null });
  setAttributes(byId("token"), { hidden: "" });
  setAttributes(byId("forget"), { hidden: token.get() ? null : "" });
  past.push(snapshot);
  state.update(snapshot);
  // Nobody looks; the title is all that shows.
  if (document.hidden) return;
  requests.update(past);
  policies.update(snapshot, past, details.byName);
  latency.update(snapshot, past);
  top.update(snapshot.top);
  lookup.update(snapshot.policies.map(({ name }) => name).sort());
  readDetails(snapshot.config.generation);
}

// What of policies is not in each snapshot, because it changes with the configuration only.
async function readDetails(generation) {
  if (details.generation === generation) return;
  const before = details;
  details = { ...details, generation };
  try {
    const answer = await askJson("v1/policies");
    details = { generation, byName: new Map(answer.policies.map((policy) => [policy.name, policy])) };
  } catch {
    // Asked again with the next snapshot. Whatever is wrong, the stream of these will tell it.
    details = before;
  }
}

function lost({ error, againInMs }) {
  lostSince ??= Date.now();
  setAttributes(byId("board"), { "data-old": "" });
  const text = `Disconnected since ${clock(lostSince)}. ${error.message} Trying again in ${duration(againInMs)}.`;
  setBadge(byId("connection"), "bad", text);
  announce(`Disconnected since ${clock(lostSince)}`);
  document.title = "Disconnected – Sluice";
}

// 401 and 403: nobody but the reader can help.
function refused(error) {
  events?.stop();
  setAttributes(byId("board"), { hidden: "" });
  if (error.status === 401) setBadge(byId("connection"), "warn", "a token is needed");
  else setBadge(byId("connection"), "bad", `${error.message} – then load this page again`);
  document.title = error.status === 401 ? "Token needed – Sluice" : "Refused – Sluice";
  if (error.status !== 401) return;
  setText(byId("token-problem"), token.get() ? "That token is not taken (any more)." : "");
  token.forget();
  setAttributes(byId("forget"), { hidden: "" });
  setAttributes(byId("token"), { hidden: null });
  byId("token-field").focus();
}

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = byId("token-field").value.trim();
  byId("token-field").value = "";
  if (!/^[A-Za-z0-9\-._~+/]+=*$/.test(text)) {
    setText(byId("token-problem"), "A token has letters, digits and -._~+/ only.");
    return;
  }
  token.set(text);
  setText(byId("token-problem"), "");
  follows();
});

byId("forget").addEventListener("click", () => {
  token.forget();
  follows();
});

// Whoever comes back to the tab, or to the network, doesn't wait out what is left.
window.addEventListener("online", () => events.hurry());
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) events.hurry();
});

follows();
