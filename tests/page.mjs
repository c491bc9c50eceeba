// Uses the page of a router as people do: node page.mjs PACKAGES CHROMIUM BASE URI [--shots FOLDER]
// Prints a JSON object: what was seen, console errors, requests elsewhere, accessibility violations.
import { createRequire } from "node:module";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

const [packages, chromium, base, uri, , shots] = process.argv.slice(2);
const require = createRequire(path.join(packages, "node_modules", "x.js"));
const puppeteer = require("puppeteer-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const profile = fs.mkdtempSync(path.join(os.tmpdir(), "browser-"));
const browser = await puppeteer.launch({
  executablePath: chromium,
  userDataDir: path.join(profile, "profile"),
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"],
  timeout: 120000,
  protocolTimeout: 240000,
});
const report = { errors: [], requests: [], violations: [] };
const text = (page, selector) => page.$eval(selector, element => element.textContent);
const look = async (page, url, datetime) => {
  await page.$eval("#url", (input, value) => (input.value = value), url);
  await page.$eval("#datetime", (input, value) => (input.value = value), datetime);
  await page.evaluate(() => (document.getElementById("answer").dataset.old = "yes"));
  await page.focus("#url");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => !document.getElementById("lookup").hasAttribute("aria-busy"));
};
try {
  const page = await browser.newPage();
  page.on("console", message => {
    // Chromium reports the status of answers that say that nothing was found, or what is wrong.
    if (message.type() === "error" && !/status of 40[04]/.test(message.text())) report.errors.push(message.text());
  });
  page.on("pageerror", error => report.errors.push(String(error)));
  page.on("request", request => request.url().startsWith(base) || /^data:/.test(request.url()) || report.requests.push(request.url()));
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(base + "/", { waitUntil: "load" });

  await look(page, uri, "2012");
  await page.waitForSelector(".closest a");
  report.inPlace = await page.$eval("#answer", main => main.dataset.old === "yes");
  report.address = await page.evaluate(() => location.search);
  report.closest = await page.$eval(".closest a", link => link.href);
  report.why = await page.$$eval("#why .mark", marks => marks.map(mark => mark.textContent));
  for (const [name, width, height] of [["desktop", 1280, 900], ["phone", 390, 844]]) {
    for (const scheme of ["light", "dark"]) {
      await page.setViewport({ width, height });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      if (shots) await page.screenshot({ path: path.join(shots, `page-${name}-${scheme}.png`), fullPage: true });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (wide > 0) report.errors.push(`${name}: ${wide} pixels wider than the screen`);
      await page.evaluate(axe);
      const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
      for (const violation of found.violations)
        report.violations.push(`${name} ${scheme}: ${violation.id}: ${violation.nodes[0].html.slice(0, 200)}`);
    }
  }
  await page.setViewport({ width: 1280, height: 900 });

  await page.$eval("table.timeline td a", link => link.click());
  await page.waitForFunction(() => location.search.includes("zoom="));
  await page.waitForFunction(() => document.querySelectorAll("table.timeline thead th").length === 13);
  report.months = await page.$$eval("table.timeline thead th", cells => cells.length - 1);
  await page.goBack();
  await page.waitForFunction(() => !location.search.includes("zoom=") && !document.querySelector("#found a.zoom[href]").textContent.includes("out"));

  await look(page, "http://nobody-has-this.example/", "");
  await page.waitForFunction(() => document.getElementById("found-heading")?.textContent.startsWith("No archive"));
  report.nothing = await text(page, "#found-heading");
  await look(page, uri, "yesterday");
  await page.waitForSelector("[role=alert]");
  report.problem = await text(page, "[role=alert]");

  const before = await text(page, "[data-fact=lookups]");
  await page.evaluate(address => fetch(address), `${base}/timemap/link/http://another.example/${Math.random()}`);
  await page.waitForFunction(old => document.querySelector("[data-fact=lookups]").textContent !== old, { timeout: 20000 }, before);
  report.live = true;

  const plain = await browser.newPage();
  await plain.setJavaScriptEnabled(false);
  await plain.goto(base + "/?url=" + encodeURIComponent(uri), { waitUntil: "load" });
  report.withoutScript = (await plain.content()).includes('class="closest"');
  const explain = await browser.newPage();
  await explain.goto(base + "/explain/" + uri, { waitUntil: "load" });
  report.explain = await text(explain, "h1");
  console.log(JSON.stringify(report));
} finally {
  await browser.close();
  fs.rmSync(profile, { recursive: true, force: true });
}
