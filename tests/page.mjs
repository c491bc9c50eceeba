// Uses the page of a router as people do: node page.mjs PACKAGES CHROMIUM BASE URI [--shots FOLDER]
// Prints a JSON object: what was seen, console errors, requests elsewhere, accessibility violations.
import { lookEverywhere, newReport, watch, withBrowser } from "./chromium.mjs";

const [packages, chromium, base, uri, , shots] = process.argv.slice(2);
const report = newReport();
const text = (page, selector) => page.$eval(selector, element => element.textContent);
const look = async (page, url, datetime) => {
  await page.$eval("#url", (input, value) => (input.value = value), url);
  await page.$eval("#datetime", (input, value) => (input.value = value), datetime);
  await page.evaluate(() => (document.getElementById("answer").dataset.old = "yes"));
  await page.focus("#url");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => !document.getElementById("lookup").hasAttribute("aria-busy"));
};
await withBrowser(packages, chromium, async browser => {
  const page = await browser.newPage();
  // Chromium reports the status of answers that say that nothing was found, or what is wrong.
  watch(page, report, url => url.startsWith(base) || /^data:/.test(url), /status of 40[04]/);
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(base + "/", { waitUntil: "load" });

  await look(page, uri, "2012");
  await page.waitForSelector(".closest a");
  report.inPlace = await page.$eval("#answer", main => main.dataset.old === "yes");
  report.address = await page.evaluate(() => location.search);
  report.closest = await page.$eval(".closest a", link => link.href);
  report.why = await page.$$eval("#why .mark", marks => marks.map(mark => mark.textContent));
  await lookEverywhere(page, packages, report, { shots, name: "page" });
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
});
