// Headless Chromium for the tests of pages: starting it, what is noted while a page is open, and what every page must
// hold to at every size and in both colour schemes.
import { createRequire } from "node:module";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

/// Runs `use(browser, folder)` with a browser and an empty folder; both are gone afterwards.
export async function withBrowser(packages, chromium, use) {
  const puppeteer = require(packages)("puppeteer-core");
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "browser-"));
  try {
    const browser = await puppeteer.launch({
      executablePath: chromium,
      userDataDir: path.join(folder, "profile"),
      args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"],
      timeout: 120000,
      protocolTimeout: 240000,
    });
    try {
      await use(browser, folder);
    } finally {
      await browser.close();
    }
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

/// What is wrong with a page, collected while it is used.
export const newReport = () => ({ errors: [], requests: [], violations: [] });

/// Notes console errors, except those that `expected` matches, exceptions, and requests that are not `allowed`.
export function watch(page, report, allowed, expected = null) {
  page.on("console", message => {
    if (message.type() === "error" && !expected?.test(message.text())) report.errors.push(message.text());
  });
  page.on("pageerror", error => report.errors.push(String(error)));
  page.on("request", request => allowed(request.url()) || report.requests.push(request.url()));
}

/// Looks at a page on a desktop and on a phone, light and dark: nothing is wider than the screen, and axe-core finds
/// nothing. `open` is called before each look; `shots`, if it is not null, gets a picture of each.
export async function lookEverywhere(page, packages, report, { open = async () => {}, shots, name, whole = () => true }) {
  const axe = fs.readFileSync(require(packages).resolve("axe-core/axe.min.js"), "utf8");
  for (const [device, width, height] of [["desktop", 1280, 900], ["phone", 390, 844]]) {
    for (const scheme of ["light", "dark"]) {
      await page.setViewport({ width, height, deviceScaleFactor: 1 });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await open();
      if (shots) await page.screenshot({ path: path.join(shots, `${name}-${device}-${scheme}.png`), fullPage: whole(device) });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (wide > 0) report.errors.push(`${device}: ${wide} pixels wider than the screen`);
      await page.evaluate(axe);
      const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
      for (const violation of found.violations)
        report.violations.push(`${device} ${scheme}: ${violation.id}: ${violation.nodes[0].html.slice(0, 200)}`);
    }
  }
}

/// `require` for the npm packages in a folder.
function require(packages) {
  return createRequire(path.resolve(packages, "node_modules", "x.js"));
}
