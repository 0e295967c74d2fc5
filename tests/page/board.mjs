// What an operator does with the page, against a sidecar and a Redis that work, fail and come back.

import assert from "node:assert/strict";
import * as tools from "./browser.mjs";
import { assertModules } from "./modules.mjs";
import { HOSTILE, load, spend } from "./load.mjs";

const { NARROW, WIDE, order, tabTo, told, untilText } = tools;

// The browser's words for a sidecar that is away.
const AWAY = /ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE/;

const [TENANT, TRIAL] = ["per-tenant", "trial"].map((name) => `#policies [data-policy="${name}"]`);

await tools.browse(async (browser) => {
  const stop = load();
  const tab = await tools.open(browser);
  const { page } = tab;
  await page.goto(`${told.admin}/`);
  await untilText(page, "#connection", /live/);
  await assertModules(page);

  await numbersMove(page);
  await keysAreText(page);
  await everythingByKeyboard(page);
  tools.assertClean(tab);
  await looksWell(page);
  await stop();
  await failuresAreTold(page);
  await comesBack(page);
  tools.assertClean(tab, AWAY);
  await refusalsAreTold(browser);
});

async function numbersMove(page) {
  await untilText(page, "#numbers .number:nth-child(1) .value", /^[1-9]/);
  await untilText(page, "#numbers .number:nth-child(2) .value", /^[1-9]/);
  await nextNumbers(page);
  await untilText(page, "#latency-numbers .number:nth-child(1)", /p50[0-9.]+ ms/);
  await untilText(page, "#latency-numbers .number:nth-child(2)", /p99[0-9.]+ ms/);

  // Each chart has its line, and the same in words.
  for (const area of ["#requests-chart .area.allowed", "#requests-chart .area.denied", "#latency-chart .line.p99",
    `${TENANT} .area.allowed`, `${TENANT} .edge.denied`]) {
    await page.waitForFunction((css) => /L/.test(document.querySelector(css).getAttribute("d")), area);
  }
  const label = await page.getAttribute(`${TENANT} svg`, "aria-label");
  assert.match(label, /^Checks of per-tenant in the last 5 minutes: allowed [\d.,]+ per second, at most [\d.,]+; denied/);
  // In the figures beside it too; a policy that is only tried out says so.
  await untilText(page, `${TENANT} tbody tr:nth-child(2)`, /^denied[1-9]/);
  await untilText(page, `${TRIAL}`, /^trial.*shadow: never denies.*would deny[1-9]/);
  await untilText(page, `${TENANT} .tags`, /1 override/);

  await untilText(page, "#policies li:nth-child(1) h3", /^idle$/);
  await page.selectOption("#order", "denied");
  await untilText(page, "#policies li:nth-child(1) h3", /^(per-tenant|trial)$/);
  await page.selectOption("#order", "name");
  await untilText(page, "#policies li:nth-child(1) h3", /^idle$/);
}

// Waits for another snapshot than the one that is shown.
async function nextNumbers(page) {
  const total = "#numbers .number:nth-child(1) .small";
  const before = await page.textContent(total);
  await page.waitForFunction(([css, text]) => document.querySelector(css).textContent !== text, [total, before]);
}

async function keysAreText(page) {
  for (const table of ["#hottest", "#most-denied"]) {
    await untilText(page, `${table} tbody`, new RegExp(HOSTILE.replaceAll(/[()]/g, "\\$&")));
    await untilText(page, `${table} tbody`, /a⟨U\+202E⟩b/);
  }
  assert.equal(await page.evaluate(() => window.executed), undefined);
  assert.equal(await page.locator("main img").count(), 0);
}

// Without a pointer: from the tables to the form, and from there to the answers.
async function everythingByKeyboard(page) {
  await spend("per-tenant", "victim", 40);
  await untilText(page, "#most-denied tbody", /victim/);
  await tabTo(page, "#most-denied button", "victim");
  // What has the focus keeps it, whatever is hot meanwhile.
  await nextNumbers(page);
  await nextNumbers(page);
  assert.match(await page.evaluate(() => document.querySelector("#most-denied button:focus")?.textContent ?? ""), /victim/);
  await page.keyboard.press("Enter");
  assert.equal(await page.inputValue("#key"), "victim");
  assert.equal(await page.inputValue("#policy"), "per-tenant");
  assert.equal(await page.evaluate(() => document.activeElement.id), "key");
  await untilText(page, "#result", /per-tenant: victim0 remaining\..*Kept.*f:20:.*sluice:\{victim\}:per-tenant:victim/);

  await tabTo(page, "#peek");
  await page.keyboard.press("Enter");
  await untilText(page, "#result", /Denied: a check of cost 1 would not pass now\..*20 per 1 h.*Retry after/);

  // What is not said twice is not done.
  await tabTo(page, "#reset");
  await page.keyboard.press("Enter");
  await untilText(page, "#sure-text", /victim under per-tenant/);
  assert.equal(await page.evaluate(() => document.activeElement.id), "sure-no");
  await page.keyboard.press("Escape");
  assert.equal(await page.evaluate(() => document.activeElement.id), "reset");
  assert.equal(await spend("per-tenant", "victim", 1), 0);

  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await untilText(page, "#result", /Reset: what was kept is forgotten/);
  assert.equal(await spend("per-tenant", "victim", 1), 1);

  // Shift+Tab goes back; Enter in the field inspects.
  await page.focus("#key");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("never/seen%2Fyet");
  await untilText(page, "#key-parts", /^2 parts: never \/ seen\/yet$/);
  await page.keyboard.press("Enter");
  await untilText(page, "#result", /20 remaining\..*nothing: it has not been charged lately/);
  await page.keyboard.press("Control+A");
  await page.keyboard.type("vip");
  await page.keyboard.press("Enter");
  await untilText(page, "#result", /This key has no limit\./);
  // Another key than the one that is meant is never asked about.
  await page.keyboard.press("Control+A");
  await page.keyboard.type("../trial/x");
  await page.keyboard.press("Enter");
  await untilText(page, "#result", /browser can't ask about a part that is "\." or "\.\."/);
  await page.keyboard.press("Control+A");
  await page.keyboard.type("50%");
  await untilText(page, "#key-parts", /Write %25 for a percent sign/);
  await page.keyboard.press("Control+A");
  await page.keyboard.type("victim");
  await page.keyboard.press("Enter");
  await untilText(page, "#result", /19 remaining/);
}

// By what can be measured, in each scheme and width; and pictures for the rest.
async function looksWell(page) {
  for (const [size, viewport] of [["wide", WIDE], ["narrow", NARROW]]) {
    await page.setViewportSize(viewport);
    for (const colorScheme of ["light", "dark"]) {
      const name = `${size}-${colorScheme}`;
      await page.emulateMedia({ colorScheme });
      await tools.assertNoOverflow(page, name);
      await tools.assertAccessible(page, name);
      await tools.picture(page, name);
      await page.click("#reset");
      await tools.assertAccessible(page, `${name} with the question`);
      await tools.picture(page, `${name}-reset`, { fullPage: false });
      await page.keyboard.press("Escape");
    }
  }
  await page.setViewportSize(WIDE);
  await page.emulateMedia({ colorScheme: "light" });
}

async function failuresAreTold(page) {
  await order("stop redis");
  await untilText(page, "#store", /Store down: redis:/);
  await untilText(page, "#alerts", /Store down.*on_store_error/);
  await untilText(page, "#announcement", /^Store down$/);
  assert.equal(await page.title(), "Store down – Sluice");
  await order("spoil the configuration");
  await untilText(page, "#alerts", /Configuration file not usable.*sluice\.yaml.*rate/);
  await untilText(page, "#configuration", /Configuration 1, and the file has an error/);
  await tools.assertAccessible(page, "with alerts");
  await tools.assertNoOverflow(page, "with alerts");
  await tools.picture(page, "alerts");
  await order("start redis");
  await untilText(page, "#store", /Store up/);
  await order("change the configuration");
  await untilText(page, "#configuration", /Configuration 2, and a restart is needed/);
  await untilText(page, "#alerts", /^Restart needed.*store/);
  await untilText(page, "#policies", /added/);
}

async function comesBack(page) {
  // A connection that is still there, with nobody at its other end.
  await order("pause the sidecar");
  await untilText(page, "#connection", /Nothing was heard for 5 s/);
  await order("resume the sidecar");
  await untilText(page, "#connection", /live$/);
  await order("stop the sidecar");
  await untilText(page, "#connection", /Disconnected since [\d:]+\..*Trying again in/);
  await untilText(page, "#announcement", /^Disconnected since/);
  await tools.assertAccessible(page, "disconnected");
  await tools.picture(page, "disconnected", { fullPage: false });
  await order("start the sidecar");
  await untilText(page, "#connection", /^[^a-z]*live$/);
  await untilText(page, "#configuration", /^[^C]*Configuration 1$/);
  // Numbers of another process are no difference to those of the last one.
  const stop = load();
  await untilText(page, "#numbers .number:nth-child(1) .value", /^[1-9]/);
  await stop();
}

// Under another name the sidecar doesn't answer, and the page says what it would take.
async function refusalsAreTold(browser) {
  const tab = await tools.open(browser);
  await tab.page.goto(`${told.admin.replace("127.0.0.1", tools.REBOUND)}/`);
  await untilText(tab.page, "#connection", /the Host header:.*IP address or localhost.*load this page again/);
  assert.equal(await tab.page.isVisible("#board"), false);
  await tools.assertAccessible(tab.page, "refused");
}
