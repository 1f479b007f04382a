// Looks at pages in a browser: check.mjs MODULES BROWSER OUT PAGE...
// MODULES holds puppeteer-core and axe-core; OUT holds the pages and takes a picture of each.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, browserPath, out, ...pages] = process.argv.slice(2);
const require = createRequire(join(modules, "package.json"));
const puppeteer = require("puppeteer-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const SCHEMES = ["light", "dark"];
const WIDTHS = [1280, 390];
// Pages of lists and of plain documents have no charts.
const WITHOUT_CHARTS = ["list.html"];

const browser = await puppeteer.launch({
  executablePath: browserPath,
  args: ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"],
});
const faults = [];

for (const name of pages) {
  for (const scheme of SCHEMES) {
    for (const width of WIDTHS) {
      const where = `${name}, ${scheme}, ${width} px`;
      const fault = (text) => faults.push(`${where}: ${text}`);
      const page = await browser.newPage();
      page.on("console", (message) => {
        if (["error", "warn"].includes(message.type())) fault(`console: ${message.text()}`);
      });
      page.on("pageerror", (error) => fault(`error: ${error.message}`));
      page.on("request", (request) => {
        const url = request.url();
        if (!url.startsWith("file:") && !url.startsWith("data:")) fault(`asks for ${url}`);
      });
      await page.setViewport({ width, height: 900 });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await page.goto(pathToFileURL(join(out, name)).href);

      const overflow = () =>
        page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      if ((await overflow()) > 0) fault(`${await overflow()} px wider than the page`);
      await page.screenshot({ path: join(out, `${name}-${scheme}-${width}.png`) });

      // All that is folded away has to hold as well.
      const charts = await page.evaluate(() => {
        document.querySelectorAll("details").forEach((one) => (one.open = true));
        return [...document.querySelectorAll("figure")].map((figure) => {
          // A chart has a wide and a narrow drawing; the width decides which one shows.
          const svg = [...figure.querySelectorAll("svg")].find(
            (one) => one.getBoundingClientRect().width > 0,
          );
          const marks = svg?.querySelectorAll("polyline,rect,circle,polygon").length ?? 0;
          const box = svg?.getBoundingClientRect();
          return {
            title: figure.querySelector("figcaption")?.textContent,
            marks,
            drawn: box && box.width > 100 && box.height > 50,
            rows: figure.querySelectorAll("tbody tr").length,
          };
        });
      });
      if (charts.length === 0 && !WITHOUT_CHARTS.includes(name)) fault("no charts");
      for (const chart of charts) {
        if (!chart.drawn || chart.marks === 0) fault(`nothing drawn: ${chart.title}`);
        if (chart.rows === 0) fault(`no numbers: ${chart.title}`);
      }
      if ((await overflow()) > 0) fault(`${await overflow()} px wider than the page, unfolded`);
      await page.evaluate(axe);
      const found = await page.evaluate(() =>
        window.axe.run(document, { resultTypes: ["violations", "incomplete"] }),
      );
      for (const violation of found.violations) {
        const first = violation.nodes[0];
        fault(`axe ${violation.id}: ${violation.help}: ${first.html.slice(0, 200)}`);
      }
      await page.screenshot({
        path: join(out, `${name}-${scheme}-${width}-unfolded.png`),
        clip: { x: 0, y: 0, width, height: 6000 },
        captureBeyondViewport: true,
      });
      await page.close();
    }
  }
}
await browser.close();
faults.forEach((fault) => console.error(`fault: ${fault}`));
console.log(`${pages.length} pages, ${faults.length} faults`);
process.exit(faults.length === 0 ? 0 : 1);
