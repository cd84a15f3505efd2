// The operator's lists with a thousand rows, by keyboard alone, and with two operators at once.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { deadLetter, eventually, freshKey, launch, open, operator, pay, signIn } from "./lib.mjs";

const many = 1_000, rounds = 16;
const customer = "cus-" + Date.now();
let browser;
before(async () => {
  browser = await launch();
  const api = new URL("../../bin/api", import.meta.url).pathname;
  execFileSync(api, ["tenants", "rate", "--tenant", "acme", "--per-second", "100000"]);
  let sent = 0;
  await Promise.all(Array.from({ length: rounds }, async () => {
    while (sent++ < many) {
      const key = freshKey("many");
      const { status } = await eventually("a payment below the old rate limit", async () => {
        const answer = await pay(key, "pm_ok", { customerId: customer });
        return answer.status !== 429 && answer;
      });
      assert.equal(status, 201);
    }
  }));
});
after(() => browser?.close());

const focus = (page) => page.evaluate(() => {
  const e = document.activeElement;
  return e?.name || e?.textContent.trim();
});

async function tabTo(page, name) {
  for (let i = 0; i < 80; i++) {
    await page.keyboard.press("Tab");
    if (await focus(page) === name) {
      return;
    }
  }
  assert.fail(`Tab does not reach ${name}`);
}

test("a thousand payments are paged through to the end, by keyboard alone", async () => {
  const page = await open(browser, { javaScriptEnabled: false });
  await signIn(page);
  await page.goto(`${operator}/console/payments`);
  await tabTo(page, "customerId");
  await page.keyboard.type(customer);
  await page.keyboard.press("Enter");
  await page.waitForURL(/customerId=/);
  const rows = () => page.locator("tbody tr").count();
  assert.equal(await rows(), 20);
  // A page may have a hundred rows.
  await page.goto(`${page.url()}&limit=100`);
  const seen = new Set();
  for (let pages = 1; ; pages++) {
    for (const id of await page.locator("tbody td:nth-child(2)").allTextContents()) {
      assert.ok(!seen.has(id), `${id} is listed twice`);
      seen.add(id);
    }
    const older = page.getByRole("link", { name: "Older" });
    if (await older.count() === 0) {
      assert.equal(pages, many / 100);
      break;
    }
    if (pages === 1) {
      await older.focus();
      await page.keyboard.press("Enter");
      await page.waitForURL(/cursor=/);
    } else {
      await page.goto(await older.evaluate((a) => a.href));
    }
  }
  assert.equal(seen.size, many);
  await page.getByRole("link", { name: "Newest" }).click();
  assert.ok(!page.url().includes("cursor="));
  await page.context().close();
});

test("a filter that cannot be is explained, and the form keeps it", async () => {
  const page = await open(browser);
  await signIn(page);
  await page.goto(`${operator}/console/payments?tenant=😀%7F`);
  await page.getByRole("alert").getByText("tenant must be").waitFor();
  assert.equal(await page.inputValue("input[name=tenant]"), "😀\u007f");
  page.complaints.length = 0; // A 400 is what was asked for.
  await page.getByRole("link", { name: "Show all" }).click();
  await page.locator("tbody tr").first().waitFor();
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("a search leads from the PSP's id to the payment, and on to its key", async () => {
  const key = freshKey("sought");
  const { body } = await pay(key);
  const page = await open(browser);
  await signIn(page);
  for (const sought of [body.pspChargeId, body.paymentId.slice(0, -2), key]) {
    await page.goto(`${operator}/console/search`);
    await tabTo(page, "q");
    await page.keyboard.type(` ${sought} `);
    await page.keyboard.press("Enter");
    await page.waitForURL(/q=/);
    await page.locator("tbody tr").first().waitFor();
    await page.getByText("12.00 USD").first().waitFor();
    await page.locator("tbody a").first().click();
    assert.equal(page.url(), `${operator}/console/payments/${body.paymentId}`);
  }
  await page.getByRole("link", { name: key }).click();
  await page.getByText("the PSP answered").first().waitFor();
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("two operators close the same dead letters at once: each is closed by one of them", async () => {
  const keys = Array.from({ length: 6 }, () => freshKey("several"));
  for (const key of keys) {
    await pay(key, "pm_wrong_amount");
  }
  await Promise.all(keys.map(deadLetter));
  const planned = await Promise.all([0, 1].map(async () => {
    const page = await open(browser);
    await signIn(page);
    await page.goto(`${operator}/console/dead-letters?kind=psp_contradicts_request`);
    await tabTo(page, "action");
    await page.keyboard.press("Space"); // retry
    await tabTo(page, "Show the plan");
    await page.keyboard.press("Enter");
    await page.getByText("open dead letters").waitFor();
    await tabTo(page, "reason");
    await page.keyboard.type("seen by two");
    return page;
  }));
  await Promise.all(planned.map(async (page) => {
    await tabTo(page, "Carry out the plan");
    await page.keyboard.press("Enter");
    await page.getByText(/done, \d+ refused|Nothing was changed/).waitFor();
  }));
  const outcomes = await Promise.all(planned.map((page) => page.locator("main").innerText()));
  const done = outcomes.map((text) => Number(/(\d+) done/.exec(text)?.[1] ?? 0));
  assert.ok(done[0] + done[1] >= keys.length, outcomes.join("\n"));
  await eventually("the audit of each", async () => {
    const list = await (await fetch(`${operator}/operator/dead-letters?status=resolved&limit=100`, {
      headers: { Authorization: "Bearer demo-operator-key" },
    })).json();
    const ours = list.data.filter((l) => keys.includes(l.key));
    return ours.length >= keys.length && ours.every((l) => l.resolution.reason === "seen by two" &&
      /api key/.test(l.resolution.actor));
  });
  for (const page of planned) {
    await page.context().close();
  }
});
