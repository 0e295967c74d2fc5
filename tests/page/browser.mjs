// What the scripts here share: Chromium, what it asked for and complained of, and orders to the test that started them.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

// Told by the test: where the sidecar listens, what to use, and where pictures go.
export const told = JSON.parse(process.argv[2]);
const require = createRequire(join(told.packages, "package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const WIDE = { width: 1280, height: 900 };
// The narrowest screen that WCAG asks for (1.4.10).
export const NARROW = { width: 320, height: 640 };

export const REBOUND = "rebound.test";

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

// Has the test do something that takes more than a browser, such as stopping the sidecar.
export async function order(name) {
  console.log(name);
  const { value } = await answers.next();
  assert.equal(value, "done", `the test's answer to ${name}`);
}

// Runs `script(browser)`, and ends the browser however that ends.
export async function browse(script) {
  const browser = await chromium.launch({
    executablePath: told.chromium,
    args: [
      "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync",
      // No name leads anywhere, but one, as if whoever owns it had it lead here.
      `--host-resolver-rules=MAP ${REBOUND} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1`,
    ],
  });
  try {
    await script(browser);
  } finally {
    await browser.close();
  }
  // What waits for answers would keep it running.
  process.exit(0);
}

// A tab of its own, with what it asked for and what it complained of.
export async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: WIDE, colorScheme: "light", reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  const [requests, complaints] = [[], []];
  context.on("request", (request) => requests.push(request.url()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  return { page, requests, complaints };
}

// Nothing was asked of anybody but the sidecar, and nothing was complained of but what `expected` matches.
export function assertClean({ requests, complaints }, expected = /^$/) {
  assert.ok(requests.length > 0);
  assert.deepEqual(requests.filter((url) => new URL(url).origin !== told.admin), []);
  assert.deepEqual(complaints.filter((text) => !expected.test(text)), []);
}

// No rule of axe's is violated, of which some are about colours and widths: so this is asked in each.
export async function assertAccessible(page, where) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  const { violations, passes } = await page.evaluate(() => window.axe.run(document));
  const words = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join(" ")}`);
  assert.deepEqual(words, [], where);
  assert.ok(passes.length > 10, `${where}: axe looked at next to nothing`);
}

export async function assertNoOverflow(page, where) {
  const [wide, there] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  assert.ok(wide <= there, `${where}: ${wide} px wide on a screen of ${there}`);
  // What is cut off inside of a box can't be scrolled to either.
  const cut = await page.evaluate(() =>
    [...document.querySelectorAll("main *, header *")]
      .filter((element) => element.getClientRects().length > 0 && !element.closest("svg, .hidden"))
      .filter((element) => element.getBoundingClientRect().right > window.innerWidth + 1)
      .map((element) => element.outerHTML.slice(0, 120)),
  );
  assert.deepEqual(cut, [], where);
}

// Goes on with the Tab key until the focus is on what the selector names, and what has this text.
export async function tabTo(page, selector, text = "") {
  for (let presses = 0; presses < 80; presses += 1) {
    await page.keyboard.press("Tab");
    const isThere = await page.evaluate(
      ([wanted, part]) => document.activeElement.matches(wanted) && document.activeElement.textContent.includes(part),
      [selector, text],
    );
    if (isThere) return;
  }
  assert.fail(`the Tab key never reaches ${selector} ${text}`);
}

// Waits until an element's text matches.
export async function untilText(page, selector, pattern) {
  await page
    .waitForFunction(([css, source]) => new RegExp(source, "s").test(document.querySelector(css)?.textContent ?? ""), [
      selector,
      pattern.source,
    ])
    .catch(async () => {
      const text = await page.evaluate((css) => document.querySelector(css)?.textContent, selector);
      assert.fail(`${selector} never was ${pattern}, but is ${JSON.stringify(text)}`);
    });
}

export const picture = (page, name, options = {}) =>
  page.screenshot({ path: join(told.pictures, `${name}.png`), fullPage: true, ...options });
