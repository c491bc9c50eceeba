// Opens pages in headless Chromium: node browser.mjs PACKAGES CHROMIUM PAGE… [--shots FOLDER]
// Prints a JSON object for each page: console errors, requests, sections, accessibility violations, saved CSV files.
import fs from "node:fs";
import path from "node:path";
import { lookEverywhere, newReport, watch, withBrowser } from "./chromium.mjs";

const [packages, chromium, ...rest] = process.argv.slice(2);
const at = rest.indexOf("--shots");
const shots = at < 0 ? null : rest[at + 1];
const pages = at < 0 ? rest : rest.slice(0, at);

await withBrowser(packages, chromium, async (browser, folder) => {
  for (const file of pages) {
    const report = { file, saved: [], ...newReport() };
    const page = await browser.newPage();
    watch(page, report, url => /^(file|blob|data):/.test(url));
    const downloads = fs.mkdtempSync(path.join(folder, "saved-"));
    const client = await page.createCDPSession();
    await client.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: downloads });
    await lookEverywhere(page, packages, report, {
      open: () => page.goto("file://" + path.resolve(file), { waitUntil: "load" }),
      shots,
      name: path.basename(file, ".html"),
      whole: device => device === "desktop",
    });
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
});
