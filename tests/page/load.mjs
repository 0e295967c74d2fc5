// Checks, asked of the sidecar as other gateways do.

import assert from "node:assert/strict";
import { told } from "./browser.mjs";

// Keys of a client that wishes operators ill.
export const HOSTILE = '<img src=x onerror="window.executed=1">';
const TURNING = "a\u202Eb";

// Asks for so many checks of a key at once, and tells how many were allowed.
export async function spend(policy, key, checks) {
  const request = { checks: [{ policy, key: [key] }] };
  return ask(Array.from({ length: checks }, () => request));
}

async function ask(requests) {
  const response = await fetch(`${told.checks}/v1/check`, { method: "POST", body: JSON.stringify({ requests }) });
  assert.equal(response.status, 200);
  const { decisions } = await response.json();
  return decisions.filter(({ allowed }) => allowed).length;
}

// Asks again and again until the returned function is called, which waits for the last answer: for keys with room left, and for some with none.
export function load() {
  const requests = [HOSTILE, TURNING, "acme", "acme", "vip", "vip"].map((key) => ({
    checks: [{ policy: "per-tenant", key: [key] }, { policy: "trial", key: [key] }],
  }));
  let stopped = false;
  const running = (async () => {
    while (!stopped) {
      await ask(requests);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  return () => {
    stopped = true;
    return running;
  };
}
