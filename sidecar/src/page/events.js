// Server-sent events, by `fetch` and not `EventSource`: that one can't show a token, nor tell why it was refused.

import { ask } from "./api.js";

// An event comes each second. Without any for so long, the connection is taken for dead, whatever TCP says.
const SILENCE_MS = 5000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;

// Reads `path` until it is stopped, and comes back when it ends. `on` has `status(snapshot)`,
// `lost({error, againInMs})`, and `refused(error)` where asking again as before is no use.
export function follow(path, on) {
  let stopped = false;
  let waitMs = FIRST_WAIT_MS;
  let wake = () => {};
  let connection;

  const received = (snapshot) => {
    waitMs = FIRST_WAIT_MS;
    try {
      on.status(snapshot);
    } catch (error) {
      // A fault of the page's own, which must not look like one of the connection.
      reportError(error);
    }
  };

  (async () => {
    while (!stopped) {
      connection = new AbortController();
      const error = await read(path, connection, received);
      if (stopped) return;
      if (error.status === 401 || error.status === 403) {
        on.refused(error);
        return;
      }
      // Not all tabs at once.
      const againInMs = Math.round(waitMs * (0.75 + Math.random() / 2));
      on.lost({ error, againInMs });
      await new Promise((resolve) => {
        wake = resolve;
        setTimeout(resolve, againInMs);
      });
      waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS);
    }
  })();

  return {
    stop() {
      stopped = true;
      connection?.abort();
      wake();
    },
    // Asks at once, if it waits.
    hurry() {
      waitMs = FIRST_WAIT_MS;
      wake();
    },
  };
}

// One connection, from its beginning to its end. Returns why it ended.
async function read(path, connection, received) {
  let isSilent = false;
  let timer;
  const watch = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      isSilent = true;
      connection.abort();
    }, SILENCE_MS);
  };
  try {
    watch();
    const response = await ask(path, { accept: "text/event-stream", signal: connection.signal });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return new Error("The sidecar ended the connection.");
      watch();
      const events = (rest + value).split(/\r?\n\r?\n/);
      rest = events.pop();
      for (const event of events) take(event, received);
    }
  } catch (error) {
    if (isSilent) return new Error(`Nothing was heard for ${SILENCE_MS / 1000} s.`);
    // A stream that breaks off is told as a TypeError, in words of the browser's.
    return error instanceof TypeError ? new Error("The connection broke.") : error;
  } finally {
    clearTimeout(timer);
    connection.abort();
  }
}

function take(event, received) {
  const fields = event.split(/\r?\n/).map((line) => /^([^:]*):? ?(.*)$/s.exec(line).slice(1));
  const data = fields.filter(([name]) => name === "data").map(([, value]) => value);
  const kind = fields.find(([name]) => name === "event")?.[1] ?? "message";
  if (kind === "status" && data.length > 0) received(JSON.parse(data.join("\n")));
}
