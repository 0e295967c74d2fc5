// Keys as text: as in the path of a check, `acme/eu`. A slash before the first part may be left out, and must not be
// where the first part is empty.

import { el } from "./dom.js";
import { visible } from "./words.js";

// The parts that a text names.
export function parse(text) {
  if (text === "") return [];
  const path = text.startsWith("/") ? text.slice(1) : text;
  return path.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      throw new Error(`"${part}" has a % that begins no character. Write %25 for a percent sign.`);
    }
  });
}

// The text that names these parts, with no more escaped than must be to be read, typed and parsed again.
export function print(parts) {
  const escaped = parts.map((part) =>
    part.replace(/[%/\p{C}\p{Zl}\p{Zp}]|^\s+|\s+$/gu, (found) => encodeURIComponent(found.toWellFormed())),
  );
  return (escaped[0] === "" ? "/" : "") + escaped.join("/");
}

// The path of a policy and a key, relative to that of a route.
export function path(policy, parts) {
  const segments = [policy, ...parts];
  // Browsers take such segments out of addresses, however they are escaped: another key would be asked about.
  if (segments.some((segment) => segment === "." || segment === "..")) {
    throw new Error('A browser can\'t ask about a part that is "." or "..": use sluice inspect, peek or reset.');
  }
  return segments.map((segment) => encodeURIComponent(segment.toWellFormed())).join("/");
}

// A key as it is shown: each part by itself, so that a slash in one is none between two.
export function shown(parts) {
  if (parts.length === 0) return [el("span", { class: "muted" }, "(no parts)")];
  return parts.flatMap((part, index) => [
    ...(index > 0 ? [el("span", { class: "muted" }, " / ")] : []),
    part === "" ? el("span", { class: "muted" }, "(empty)") : el("bdi", { class: "part" }, visible(part)),
  ]);
}
