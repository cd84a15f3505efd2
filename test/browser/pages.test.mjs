// What holds for every page: nobody is shut out, nothing is cut off, and what a stranger writes is text.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { axe, furnish, launch, open, signIn } from "./lib.mjs";

let browser, pages;
before(async () => {
  browser = await launch();
  pages = await furnish();
});
after(() => browser?.close());

// Contrast depends on the colours and what is cut off on the width, so two rounds see both of each.
for (const [colorScheme, width] of [["light", 360], ["dark", 1440]]) {
  test(`every page, ${colorScheme}, ${width} pixels wide`, async () => {
    const page = await open(browser, { colorScheme, viewport: { width, height: 900 } });
    await signIn(page);
    const wrong = [];
    for (const [name, url] of Object.entries(pages)) {
      const missing = name === "key-nobody-has-used"; // It is a 404, which the console of the browser reports.
      const before = page.complaints.length;
      const response = await page.goto(url);
      assert.equal(response.status(), missing ? 404 : 200, url);
      if (name.includes("reader")) {
        await page.waitForSelector(".opblock");
      }
      wrong.push(...await axe(page));
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (over > 0) {
        wrong.push(`${url} is ${over} pixels wider than the window`);
      }
      if (width < 400) { // A status or an answer beside the window would be seen by nobody.
        wrong.push(...await page.evaluate(() => [...document.querySelectorAll(".scroll:has(table)")]
          .filter((e) => e.scrollWidth > e.clientWidth).map((e) => `${location}: a part of ${e.ariaLabel} is hidden`)));
      }
      if (missing) {
        page.complaints.length = before;
      }
    }
    assert.deepEqual([...wrong, ...page.complaints], []);
    await page.context().close();
  });
}

test("the reader does not scroll sideways, at any width, with every operation open", async () => {
  const page = await open(browser);
  await page.goto(pages.reader);
  await page.waitForSelector(".opblock");
  await page.evaluate(() => document.querySelectorAll(".opblock-summary-control").forEach((e) => e.click()));
  await page.waitForFunction(() => document.querySelectorAll(".opblock:not(.is-open)").length === 0);
  for (const width of [320, 360, 390, 768, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    const over = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
    assert.ok(over <= 0, `at ${width} it is ${over} pixels too wide`);
  }
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("what a stranger writes is text on every page", async () => {
  const page = await open(browser);
  page.on("dialog", (dialog) => {
    page.complaints.push(`${page.url()} opens a dialog`);
    dialog.dismiss();
  });
  await signIn(page);
  for (const name of ["overview", "key-hostile", "dead-letters-resolved", "dead-letter-resolved", "psp"]) {
    await page.goto(pages[name]);
    assert.notEqual(await page.title(), "owned");
    assert.equal(await page.locator("main script, main img, section script").count(), 0, name);
  }
  await page.goto(pages["key-hostile"]);
  for (const fold of await page.getByText("As stored").all()) {
    await fold.click();
  }
  await page.getByText(`<script>document.title="owned"</script>`).first().waitFor();
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("a time says how long ago it is, and what is unfolded stays so", async () => {
  const page = await open(browser);
  await signIn(page);
  await page.goto(pages.keys);
  const time = page.locator("tbody time").first();
  assert.match(await time.textContent(), /^\d+ (s|min) ago$/);
  assert.match(await time.getAttribute("title"), /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/);
  await page.goto(pages.key);
  await page.getByText("As stored").first().click();
  await page.evaluate(() => { // as a message of the stream does
    const part = document.querySelector("[data-live]");
    globalThis.fill(part, part.innerHTML.replaceAll("<details open", "<details"));
  });
  assert.ok(await page.locator("details").first().evaluate((e) => e.open), "it has folded again");
  await page.context().close();
});

test("without script, every page shows what it shows", async () => {
  const page = await open(browser, { javaScriptEnabled: false });
  await signIn(page);
  assert.equal(page.url(), pages.overview);
  for (const [name, text] of Object.entries({
    overview: "Latest keys", key: "201, replayed", "dead-letter": "Refused now", demo: "Pay once", psp: "Latest calls",
    payments: "12.00 USD", payment: "Refunds", keys: "completed", "keys-none": "No key fits", search: "first 4 characters",
    found: "payment", statements: "Account", books: "No line of this day", breaks: "Kind", webhooks: "Received",
    endpoints: "/shop/…", endpoint: "Send again", delivery: "v1,••••", "dead-letters": "Show the plan",
  })) {
    await page.goto(pages[name]);
    assert.ok((await page.content()).includes(text), `${pages[name]} lacks ${text}`);
  }
  await page.context().close();
});
