// Opens pages in headless Chromium: node browser.mjs PACKAGES CHROMIUM PAGE… [--shots FOLDER]
// Prints a JSON object for each page: console errors, requests, sections, accessibility violations, saved CSV files.
import { createRequire } from "node:module";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

const [packages, chromium, ...rest] = process.argv.slice(2);
const at = rest.indexOf("--shots");
const shots = at < 0 ? null : rest[at + 1];
const pages = at < 0 ? rest : rest.slice(0, at);
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
try {
  for (const file of pages) {
    const report = { file, errors: [], requests: [], violations: [], saved: [] };
    const page = await browser.newPage();
    page.on("console", message => message.type() === "error" && report.errors.push(message.text()));
    page.on("pageerror", error => report.errors.push(String(error)));
    page.on("request", request => /^(file|blob|data):/.test(request.url()) || report.requests.push(request.url()));
    const downloads = fs.mkdtempSync(path.join(profile, "saved-"));
    const client = await page.createCDPSession();
    await client.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: downloads });
    for (const [name, width, height] of [["desktop", 1280, 900], ["phone", 390, 844]]) {
      for (const scheme of ["light", "dark"]) {
        await page.setViewport({ width, height, deviceScaleFactor: 1 });
        await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
        await page.goto("file://" + path.resolve(file), { waitUntil: "load" });
        if (shots) {
          const shot = path.join(shots, `${path.basename(file, ".html")}-${name}-${scheme}.png`);
          await page.screenshot({ path: shot, fullPage: name === "desktop" });
        }
        // The page must not be wider than the screen.
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (wide > 0) report.errors.push(`${name}: ${wide} pixels wider than the screen`);
        await page.evaluate(axe);
        const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
        for (const violation of found.violations)
          report.violations.push(`${name} ${scheme}: ${violation.id}: ${violation.nodes[0].html.slice(0, 200)}`);
      }
    }
    report.sections = await page.evaluate(() => [...document.querySelectorAll("section > h2")].map(h => h.textContent));
    report.figures = await page.evaluate(() => document.querySelectorAll("figure svg").length);
    report.tables = await page.evaluate(() => [...document.querySelectorAll("table")].map(table => table.rows.length));
    const buttons = await page.$$("button.csv");
    if (buttons.length) {
      await buttons[0].evaluate(button => button.click());
      for (let tries = 0; tries < 100 && !fs.readdirSync(downloads).some(name => name.endsWith(".csv")); tries++)
        await new Promise(resolve => setTimeout(resolve, 100));
      for (const name of fs.readdirSync(downloads))
        report.saved.push({ name, text: fs.readFileSync(path.join(downloads, name), "utf8") });
    }
    // Values on hover.
    const mark = await page.$("svg .mark[data-tip]");
    if (mark) {
      await mark.evaluate(element => element.scrollIntoView({ behavior: "instant", block: "center", inline: "center" }));
      await mark.hover();
      report.tip = await page.$eval("#tip", tip => (tip.hidden ? null : tip.textContent));
    }
    console.log(JSON.stringify(report));
    await page.close();
  }
} finally {
  await browser.close();
  fs.rmSync(profile, { recursive: true, force: true });
}
