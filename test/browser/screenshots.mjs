// Photographs every page into bin/screenshots, light and dark, at 360 and 1440 pixels.
import { mkdir } from "node:fs/promises";
import { furnish, launch, open, signIn } from "./lib.mjs";

const folder = new URL("../../bin/screenshots/", import.meta.url);
await mkdir(folder, { recursive: true });
const browser = await launch();
const pages = await furnish();
let taken = 0;
for (const colorScheme of ["light", "dark"]) {
  for (const width of [360, 1440]) {
    const page = await open(browser, { colorScheme, viewport: { width, height: 900 } });
    const take = async (name) => {
      await page.screenshot({ path: new URL(`${name}-${width}-${colorScheme}.png`, folder).pathname, fullPage: true });
      process.stderr.write(`\r${++taken} screenshots`);
    };
    await page.goto(pages.overview);
    await take("sign-in");
    await signIn(page);
    for (const [name, url] of Object.entries(pages)) {
      await page.goto(url);
      if (name.includes("reader")) {
        await page.waitForSelector(".opblock");
      }
      await page.waitForTimeout(500); // for the first message of the stream
      await take(name);
    }
    await page.context().close();
  }
}
await browser.close();
console.log(`\nin bin/screenshots`);
