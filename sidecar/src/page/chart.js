// Charts of the last minutes, drawn as SVG at the size that they have on the screen.

import { el, setAttributes, setText, svg } from "./dom.js";
import { SPAN_MS } from "./history.js";
import { rate } from "./words.js";

// Room above the highest value, so that its line is not cut.
const TOP = 4;
// So many minutes apart are the vertical lines.
const MINUTE_MS = 60_000;

// What charts have in common: a frame with a scale, the picture, and the times below it.
class Chart {
  width = 300;
  height = 100;
  #redraw = () => {};
  #top = el("span");
  #since = el("span");

  constructor(parent) {
    this.picture = svg("svg", { class: "chart", role: "img", "aria-label": "nothing yet" });
    this.grid = svg("path", { class: "grid" });
    this.picture.append(this.grid);
    this.frame = el(
      "div",
      { class: "frame" },
      el("div", { class: "scale muted small", "aria-hidden": "true" }, this.#top, el("span", {}, "0")),
      this.picture,
      el("div", { class: "times muted small", "aria-hidden": "true" }, this.#since, el("span", {}, "now")),
    );
    parent.append(this.frame);
    new ResizeObserver(([{ contentRect }]) => {
      if (contentRect.width === 0) return;
      this.width = contentRect.width;
      this.height = contentRect.height;
      setAttributes(this.picture, { viewBox: `0 0 ${this.width} ${this.height}` });
      this.#redraw();
    }).observe(this.picture);
  }

  // Draws by `draw(x, y)` with the places of a time and of a value. `points` have a time each, `at`.
  show({ points, now, top, topText, label }, draw) {
    // Not more than there is: a page just opened would show a sliver.
    const minutes = Math.ceil((now - (points[0]?.at ?? now)) / MINUTE_MS);
    const span = Math.min(Math.max(minutes, 1) * MINUTE_MS, SPAN_MS);
    setText(this.#top, topText);
    setText(this.#since, `${span / MINUTE_MS} min ago`);
    setAttributes(this.picture, { "aria-label": label });
    this.#redraw = () => {
      const x = (at) => round(this.width * (1 - (now - at) / span));
      const y = (value) => round(this.height - (value / top) * (this.height - TOP));
      let grid = `M0 ${y(top)}H${this.width}M0 ${y(top / 2)}H${this.width}`;
      for (let at = now - span + MINUTE_MS; at < now; at += MINUTE_MS) grid += `M${x(at)} 0V${this.height}`;
      setAttributes(this.grid, { d: grid });
      draw(x, y);
    };
    this.#redraw();
  }
}

// Rates of several outcomes, one on the other.
export class BandChart extends Chart {
  #bands;

  // `bands` from the bottom to the top.
  constructor(parent, bands) {
    super(parent);
    this.#bands = bands.map((id) => {
      const [area, edge] = [svg("path", { class: `area ${id}` }), svg("path", { class: `edge ${id}` })];
      this.picture.append(area, edge);
      return { id, area, edge };
    });
  }

  // `points` are `{at, rates}`, with a rate for each band, or without `rates` where there is a hole.
  update(points, now, label) {
    const stacks = points.map(({ at, rates }) => ({ at, levels: rates && levels(this.#bands.map(({ id }) => rates[id])) }));
    const most = stacks.reduce((highest, { levels: all }) => Math.max(highest, all?.at(-1) ?? 0), 0);
    const top = roundedUp(most);
    this.show({ points, now, top, topText: `${rate(top)}/s`, label }, (x, y) => {
      this.#bands.forEach(({ area, edge }, index) => {
        let [areas, edges] = ["", ""];
        for (const run of runs(stacks, (stack) => stack.levels)) {
          const at = (stack, level) => `${x(stack.at)} ${y(stack.levels[level])}`;
          areas += `M${run.map((stack) => at(stack, index + 1)).join("L")}`;
          areas += `L${run.toReversed().map((stack) => at(stack, index)).join("L")}Z`;
          // An edge is as thick however thin its band is, and is absent where there is none.
          for (const part of runs(run, ({ levels: all }) => all[index + 1] > all[index])) {
            const line = part.map((stack) => at(stack, index + 1)).join("L");
            // A line of one point would not be seen.
            edges += part.length > 1 ? `M${line}` : `M${line}h1`;
          }
        }
        setAttributes(area, { d: areas });
        setAttributes(edge, { d: edges });
      });
    });
  }
}

// Values that are no parts of a whole, each a line.
export class LineChart extends Chart {
  #lines;
  #words;

  constructor(parent, names, words) {
    super(parent);
    this.#words = words;
    this.#lines = names.map((name) => {
      const line = svg("path", { class: `line ${name}` });
      this.picture.append(line);
      return line;
    });
  }

  // `points` are `{at, values}` with a value, or `null`, for each line, or without `values`.
  update(points, now, label) {
    const most = points.reduce((highest, { values }) => Math.max(highest, ...(values ?? [0])), 0);
    const top = roundedUp(most || 0.001);
    this.show({ points, now, top, topText: this.#words(top), label }, (x, y) => {
      this.#lines.forEach((line, index) => {
        let path = "";
        for (const run of runs(points, ({ values }) => values && values[index] !== null)) {
          const places = run.map(({ at, values }) => `${x(at)} ${y(values[index])}`).join("L");
          path += run.length > 1 ? `M${places}` : `M${places}h1`;
        }
        setAttributes(line, { d: path });
      });
    });
  }
}

// The sums so far, from 0 on.
function levels(rates) {
  let sum = 0;
  return [0, ...rates.map((value) => (sum += value))];
}

// Neighbours for which `holds`, together.
function runs(points, holds) {
  const all = [];
  let run = null;
  for (const point of points) {
    if (!holds(point)) run = null;
    else if (run) run.push(point);
    else all.push((run = [point]));
  }
  return all;
}

// The next short number that holds this value, so that scales are read easily and change rarely.
export function roundedUp(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((factor) => factor * power >= value * 0.999_999);
  return step * power;
}

const round = (value) => Math.round(value * 10) / 10;
