// Elements. Whatever the server says becomes text: nothing here, or anywhere in the page, parses markup, and the
// browser is told to refuse it (`require-trusted-types-for` in http/page.rs).

const SVG = "http://www.w3.org/2000/svg";

// The element of this id: one that index.html has.
export const byId = (id) => document.getElementById(id);

// An element with attributes and children, texts among them. An attribute that is `null` or `false` is left out.
export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  setAttributes(element, attributes);
  element.append(...children);
  return element;
}

// Sets what has changed, and nothing else: a page that is updated each second should not be laid out each second.
export function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false) element.removeAttribute(name);
    else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const shownPairs = new WeakMap();

// A `dl`'s pairs of name and text. A text that is nothing leaves its pair out. What is there already stays: somebody may
// be selecting it.
export function setPairs(list, pairs) {
  const there = pairs.filter(([, text]) => text !== null && text !== undefined && text !== "");
  const drawn = JSON.stringify(there);
  if (shownPairs.get(list) === drawn) return;
  shownPairs.set(list, drawn);
  list.replaceChildren(...there.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
}

// A mark and a sentence. The mark has a shape for each level: ok, warn, bad, unknown.
export function setBadge(badge, level, text) {
  setAttributes(badge, { "data-level": level });
  setText(badge.lastElementChild, text);
}

// Told to screen readers, when it is another text than the last: for changes of state only. One that reads out numbers
// each second is one that is turned off.
export const announce = (text) => setText(byId("announcement"), text);
