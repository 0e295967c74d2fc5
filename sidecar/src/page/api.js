// Questions to the sidecar. Addresses are relative, so that the page works below another path of a proxy's.

const STORED = "sluice-token";

export const token = {
  get: () => sessionStorage.getItem(STORED),
  set: (text) => sessionStorage.setItem(STORED, text),
  forget: () => sessionStorage.removeItem(STORED),
};

// An answer that is none. `status` is 0 if there was no answer at all.
export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// Asks, and returns the response if it is a good one.
export async function ask(path, { method = "GET", accept = "application/json", signal } = {}) {
  const headers = { accept };
  if (token.get()) headers.authorization = `Bearer ${token.get()}`;
  let response;
  try {
    response = await fetch(path, { method, headers, signal, cache: "no-store" });
  } catch (error) {
    throw error.name === "AbortError" ? error : new Refusal(0, "The sidecar doesn't answer.");
  }
  if (response.ok) return response;
  throw new Refusal(response.status, await reason(response));
}

export const askJson = async (path, options) => (await ask(path, options)).json();

// What a problem says.
async function reason(response) {
  try {
    const { detail } = await response.json();
    if (typeof detail === "string") return detail;
  } catch {
    // Not from the sidecar, or cut off: its status has to do.
  }
  return `The answer was ${response.status} ${response.statusText}`.trim();
}
