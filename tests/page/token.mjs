// A sidecar that wants a token: the page asks for it, keeps it for the tab, and forgets it when told.

import assert from "node:assert/strict";
import * as tools from "./browser.mjs";

const { NARROW, tabTo, told, untilText } = tools;

await tools.browse(async (browser) => {
  const tab = await tools.open(browser, { viewport: NARROW, colorScheme: "dark" });
  const { page } = tab;
  await page.goto(`${told.admin}/`);
  await page.waitForSelector("#token:not([hidden])");
  assert.equal(await page.isVisible("#board"), false);
  assert.equal(await page.evaluate(() => document.activeElement.id), "token-field");
  await tools.assertAccessible(page, "the question for a token");
  await tools.assertNoOverflow(page, "the question for a token");
  await tools.picture(page, "token", { fullPage: false });

  await page.keyboard.type("not-a-token-of-it");
  await page.keyboard.press("Enter");
  await untilText(page, "#token-problem", /not taken/);
  await tools.assertAccessible(page, "a token that is not taken");
  await page.keyboard.type("no tökén at all");
  await page.keyboard.press("Enter");
  await untilText(page, "#token-problem", /letters, digits/);

  await page.keyboard.press("Control+A");
  await page.keyboard.type(told.token);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#board:not([hidden])");
  await untilText(page, "#connection", /live/);
  // Questions about a key show it too.
  await page.focus("#key");
  await page.keyboard.type("acme");
  await page.keyboard.press("Enter");
  await untilText(page, "#result", /remaining/);
  // It is neither in the address nor on the page.
  const seen = await page.evaluate(() => location.href + document.documentElement.outerHTML + document.cookie + JSON.stringify(localStorage));
  assert.ok(!seen.includes(told.token));
  assert.ok(tab.requests.every((url) => !url.includes(told.token)));

  await page.reload();
  await untilText(page, "#connection", /live/);
  await tabTo(page, "#forget");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#token:not([hidden])");
  await page.reload();
  await page.waitForSelector("#token:not([hidden])");
  assert.equal(await page.isVisible("#board"), false);
  tools.assertClean(tab, /status of 401/);
});
