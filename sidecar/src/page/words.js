// Numbers, times and texts as people read them.

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en-GB", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const clockTime = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const dayAndTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });

export const count = (value) => whole.format(value);

// A count whose last digits nobody reads, so that its place needn't be wide.
export const amount = (value) => (value < 1_000_000 ? whole : short).format(value);

// A rate: what is not nothing doesn't look like nothing.
export function rate(perSecond) {
  if (perSecond === 0) return "0";
  if (perSecond < 0.05) return "<0.1";
  return perSecond < 100 ? tenths.format(perSecond) : amount(perSecond);
}

// A duration of so many milliseconds, in at most two units.
export function duration(ms) {
  if (Math.ceil(ms) < 1000) return `${whole.format(Math.ceil(ms))} ms`;
  if (ms < 60_000) return `${tenths.format(ms / 1000)} s`;
  const seconds = Math.round(ms / 1000);
  const units = [["d", 86_400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  const [[name, size], [nextName, nextSize]] = [units[first], units[first + 1]];
  const next = Math.floor((seconds % size) / nextSize);
  return `${Math.floor(seconds / size)} ${name}${next > 0 ? ` ${next} ${nextName}` : ""}`;
}

// How long the store took, in seconds.
export function latency(seconds) {
  const ms = seconds * 1000;
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  return ms < 100 ? `${tenths.format(ms)} ms` : `${whole.format(ms)} ms`;
}

// A time of day, of milliseconds since the epoch; with its date when it was another day.
export function clock(atMs, nowMs = Date.now()) {
  return nowMs - atMs < 43_200_000 ? clockTime.format(atMs) : dayAndTime.format(atMs);
}

export const plural = (number, one, several) => `${count(number)} ${number === 1 ? one : several}`;

// Text that others chose, with what could not be seen, or would turn what is around it, spelt out.
export function visible(text) {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (character) => {
    const point = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return `⟨U+${point}⟩`;
  });
}
