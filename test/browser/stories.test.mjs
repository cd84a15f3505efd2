// The stories that the pages tell, by clicking, in order of how a newcomer meets them.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { axe, charges, deadLetter, eventually, freshKey, launch, open, operator, patience, pay, signIn } from "./lib.mjs";

let browser;
before(async () => { browser = await launch(); });
after(() => browser?.close());

const status = (page, name) => page.waitForSelector(`.status.${name}`, { timeout: patience });

test("the link of the banner is good once, and three buttons show why a payment is charged once", async () => {
  const page = await open(browser);
  await page.goto(process.env.START_URL);
  assert.equal(page.url(), operator + "/demo/", "the token stays in the address bar");
  await page.getByRole("button", { name: "Pay, and lose the answer" }).click();
  await page.evaluate(() => { globalThis.notLoadedAgain = true; });
  await status(page, "in_progress");
  await status(page, "unknown");
  await status(page, "completed");
  assert.ok(await page.evaluate(() => globalThis.notLoadedAgain), "the page was loaded again");
  const key = new URL(page.url()).searchParams.get("key");
  await page.getByRole("button", { name: "Send the same request again" }).click();
  await page.locator("#picture .steps").getByText("201, replayed").waitFor();
  await page.locator("[data-field=executed]", { hasText: /^1$/ }).waitFor();
  assert.equal(await page.locator("[data-field=requests]").textContent(), "2");
  assert.equal(await charges(key), 1);
  assert.deepEqual(page.complaints, []);

  const second = await open(browser);
  assert.equal((await second.goto(process.env.START_URL)).status(), 410);
});

test("the first press shows two pictures side by side: charged twice on the left, once on the right", async () => {
  const page = await open(browser);
  await page.goto(operator + "/demo/");
  const first = page.locator("main button").first();
  assert.equal(await first.textContent(), "Lose the answer");
  await page.locator("#picture, .facts", { hasText: /naive server runs since/ }).waitFor();
  await first.focus();
  await page.keyboard.press("Enter");
  const sides = page.locator("#compared section");
  await sides.nth(0).locator(".figure.bad", { hasText: "Charged twice" }).waitFor(); // red and green come at the end
  await sides.nth(1).locator(".figure.good", { hasText: "Charged once" }).waitFor();
  const [left, right] = await Promise.all([0, 1].map((i) => sides.nth(i).locator("svg").boundingBox()));
  assert.ok(left.x + left.width <= right.x && left.y === right.y, "the pictures are not side by side");
  assert.ok(await first.evaluate((e) => e === document.activeElement), "the button has lost the focus");
  assert.deepEqual(page.complaints, []);
});

test("after each of the three buttons, the page says what to do next, and at the end what was seen", async () => {
  const page = await open(browser, { viewport: { width: 360, height: 740 } });
  await page.goto(operator + "/demo/");
  const next = page.locator("#guide .next");
  const says = (text) => next.filter({ hasText: text }).waitFor();
  const press = async (name) => {
    const button = page.getByRole("region", { name: "Three buttons" }).getByRole("button", { name });
    await button.focus();
    await page.keyboard.press("Enter");
    return button;
  };
  await press("Pay, and lose the answer");
  await says(/^Now press 2, before [0-9:]{8} \(UTC\)\.$/);
  assert.ok(await inWindow(next), "what to do next is out of view");
  const key = new URL(page.url()).searchParams.get("key");
  const kill = await press("kill -9 the API");
  await says(/Now press 3\.$/);
  assert.ok(await inWindow(next), "what to do next is out of view");
  assert.ok(await kill.evaluate((e) => e === document.activeElement), "the button has lost the focus");
  await press("Send the same request again");
  await says(/^The answer is 409 until about [0-9:]{8} \(UTC\), when the lease of the first request is over\./);
  await says(/the answer is stored\. Press 3/);
  await press("Send the same request again");
  await says(/^The PSP has charged once, although the client sent the request 3 times and the API was killed: your retries/);
  assert.equal(await charges(key), 1);
  assert.deepEqual(page.complaints, []);
});

const inWindow = (locator) => locator.evaluate((e) => {
  const box = e.getBoundingClientRect();
  return box.top >= 0 && box.bottom <= innerHeight;
});

test("what a button has done is said at the bottom of the window, and the PSP's preset is marked", async () => {
  for (const width of [360, 1440]) {
    const page = await open(browser, { viewport: { width, height: 740 } });
    await page.goto(operator + "/demo/");
    const psp = page.getByRole("region", { name: "The PSP" });
    const on = psp.locator("button[aria-pressed=true]");
    for (const name of ["Webhooks off", "No faults"]) {
      await psp.getByRole("button", { name }).click();
      const said = page.locator("#latest", { hasText: `faults of the PSP: ${name}: set` });
      await said.waitFor({ state: "visible" });
      assert.ok(await inWindow(said));
      await on.filter({ hasText: name }).waitFor();
      assert.equal(await on.count(), 1);
    }
    await page.context().close();
  }
});

test("the count of requests does not fall silently when the API is killed", async () => {
  const page = await open(browser);
  await signIn(page);
  const key = freshKey("counted");
  for (let i = 0; i < 4; i++) {
    await pay(key);
  }
  await page.goto(`${operator}/console/keys/acme/payments/${key}`);
  const requests = page.locator(".figure", { has: page.locator("[data-field=requests]") });
  assert.match(await requests.textContent(), /^\s*4 requests in the picture/);
  const demo = await open(browser);
  await demo.goto(operator + "/demo/");
  await demo.getByRole("button", { name: "kill -9 the API" }).click();
  await requests.filter({ hasText: /1 request in the picture; another API process may have answered more/ }).waitFor();
  await page.getByText("The key is older than this API process").waitFor();
});

test("the picture stays while the API is away, and then shows when the new process has started", async () => {
  const page = await open(browser);
  await signIn(page);
  await page.goto(operator + "/demo/");
  await page.getByRole("button", { name: "Pay slowly" }).click();
  await status(page, "in_progress");
  const key = new URL(page.url()).searchParams.get("key");
  await page.evaluate(() => { globalThis.notLoadedAgain = true; });
  await page.getByRole("button", { name: "kill -9 the API" }).click();
  await page.locator("#offline", { hasText: /^The API was killed\. This page waits for the next one\.$/ }).waitFor();
  assert.ok(await page.locator("#picture .picture").isVisible());
  await page.locator("#picture .steps").getByText("this API process starts").waitFor();
  await status(page, "completed");
  assert.ok(await page.evaluate(() => globalThis.notLoadedAgain), "the page was loaded again");
  assert.equal(await charges(key), 1);
  // The buttons are for the key in the picture now, and a new payment takes its place.
  await page.getByRole("button", { name: "Same key, another amount" }).click();
  await page.locator("#picture .steps").getByText("422").waitFor();
  await page.getByRole("button", { name: "Pay once" }).click();
  await page.waitForURL((url) => url.searchParams.get("key") !== key);
  await page.locator("#picture .steps").getByText("POST /payments").waitFor();
  await page.goBack();
  await page.locator("#picture .steps").getByText("422").waitFor();
});

test("without a session, the demo's page says how to sign in, and leads back", async () => {
  const page = await open(browser);
  await page.goto(operator + "/demo/");
  const key = await page.getByText("API key for operators").locator("code").textContent();
  await page.getByRole("link", { name: "sign in" }).click();
  await page.fill("input[name=key]", key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL(operator + "/demo/*");
});

test("kill -9 of the API shows a banner, and the page catches up by itself", async () => {
  const page = await open(browser);
  await signIn(page);
  const key = freshKey("killed");
  await page.goto(`${operator}/console/keys/acme/payments/${key}`);
  const sent = pay(key, "pm_slow").catch(() => "lost"); // pm_slow: the PSP charges after a pause
  await status(page, "in_progress");
  const demo = await open(browser);
  await demo.goto(operator + "/demo/");
  await demo.getByRole("button", { name: "kill -9 the API" }).click();
  await page.locator("#offline").waitFor({ state: "visible" });
  await page.locator("#offline").waitFor({ state: "hidden" });
  assert.equal(await sent, "lost");
  await status(page, "completed");
  // Whoever was first has found the charge: the PSP's webhook, or a lookup after the lease was over.
  const answer = await eventually("the answer", async () => {
    const again = await pay(key, "pm_slow").catch(() => null);
    return again?.status === 201 && again;
  });
  assert.ok(answer.replayed);
  assert.equal(await charges(key), 1);
});

test("a payment is held at a crash window beside its picture, and is charged once though the API is killed there", async () => {
  const page = await open(browser);
  await page.goto(operator + "/demo/");
  await page.getByText("Stop a payment at a crash window").click();
  const list = page.getByRole("combobox", { name: "Window" });
  assert.match(await list.evaluate((e) => [...e.options].find((o) => o.disabled).text), /^5: .*cannot be held/);
  assert.equal(await list.inputValue(), "3c");
  const stop = page.getByRole("button", { name: "Pay, and stop there" });
  await stop.evaluate((e) => e.scrollIntoView({ block: "center" }));
  const scrolled = await page.evaluate(() => scrollY);
  await stop.click();
  const held = page.getByRole("group", { name: /^Held at window 3c/ });
  await held.waitFor();
  const seconds = async () => Number(/held for (\d+) s/.exec(await held.textContent())?.[1]);
  const first = await seconds();
  assert.ok(first > 50, `the countdown begins at ${first} s`);
  await eventually("the countdown", async () => await seconds() < first);
  const below = page.getByRole("heading", { name: /^What happened to the key/ });
  const [panel, picture] = [await held.boundingBox(), await below.boundingBox()];
  assert.ok(picture.y >= panel.y + panel.height && picture.y < 900, "the panel and the picture are not in one view");
  assert.equal(await page.evaluate(() => scrollY), scrolled, "the page has scrolled by itself");
  assert.ok(await stop.evaluate((e) => e === document.activeElement), "the button has lost the focus");
  assert.equal(await held.getByRole("button").count(), 3);
  await held.getByText("The customer may have been charged.").waitFor();
  const key = new URL(page.url()).searchParams.get("key");
  assert.equal(await charges(key), 1, "at 3c the PSP has charged");
  assert.deepEqual(await axe(page), []);
  await held.getByRole("button", { name: "kill -9 the API" }).press("Enter");
  const seen = page.getByRole("group", { name: "What was seen at the window" });
  await seen.getByText(/^At 3c .*, the API was killed; .* completed the key .*: charged once\.$/).waitFor();
  const row = (...texts) => texts.reduce((rows, hasText) => rows.filter({ hasText }), page.getByRole("row"));
  await row("at the window: kill -9 the API", "done").waitFor();
  await row(key, "connection lost").waitFor();
  const answer = await eventually("the answer", async () => {
    const again = await pay(key, "pm_ok", { customerId: "cus-demo" }).catch(() => null);
    return again?.status === 201 && again;
  });
  assert.ok(answer.replayed);
  assert.equal(await charges(key), 1);
  const dismiss = seen.getByRole("button", { name: "Dismiss" });
  assert.ok(await dismiss.evaluate((e) => e === document.activeElement), "the choice has lost the focus");
  assert.deepEqual(await axe(page), []);
  await dismiss.press("Enter");
  await seen.waitFor({ state: "detached" });

  // At the width of a phone, too, it opens where the button is.
  await page.setViewportSize({ width: 390, height: 800 });
  await stop.scrollIntoViewIfNeeded();
  await stop.click();
  await held.waitFor();
  const [button, opened] = [await stop.boundingBox(), await held.boundingBox()];
  const gap = opened.y - button.y - button.height;
  assert.ok(gap > 0 && gap < 60, `the panel is ${gap} pixels below the button`);
  await held.getByRole("button", { name: "Go on" }).click();
  await seen.getByText(/^At 3c .*, you let it go on; .*: charged once\.$/).waitFor();
});

test("what others do to a payment is on its line of time, with what is left of it", async () => {
  const page = await open(browser, { viewport: { width: 390, height: 844 } });
  await signIn(page);
  const key = freshKey("others");
  await pay(key);
  const steps = page.locator(".life li");
  const press = async (name, last, keeps) => {
    await page.goto(`${operator}/demo/?key=${key}`);
    await page.getByText("What others do to the payment in the picture").click();
    await page.getByRole("button", { name, exact: true }).click();
    await page.waitForURL(/\/console\/payments\/pay_/);
    assert.match(await steps.last().innerText(), new RegExp(`\\n${last}, at the PSP[^]*keeps ${keeps} USD$`));
  };
  await press("Refund in the PSP's dashboard", "refund", "9.00");
  await press("Open a dispute", "dispute opened", "4.00");
  await press("Win", "dispute won", "9.00");
  await press("Fail the last refund", "refund came back", "12.00");
  assert.equal(await steps.count(), 5);
  assert.deepEqual(await axe(page), []);
  await page.goto(`${operator}/demo/?key=${key}`);
  await page.getByText("What others do to the payment in the picture").click();
  await page.getByRole("button", { name: "Lose", exact: true }).click();
  await page.locator("#guide", { hasText: "not done: the mock PSP answered" }).waitFor();
  assert.deepEqual(page.complaints, []);
});

test("crash of the database: a payment works again", async () => {
  const demo = await open(browser);
  await demo.goto(operator + "/demo/");
  await demo.getByRole("button", { name: "crash the database" }).click();
  await demo.getByText(/database.*started again 1 time/).waitFor();
  const key = freshKey("crashed");
  await eventually("a payment", async () => (await pay(key).catch(() => ({}))).status === 201);
  assert.equal(await charges(key), 1);
});

test("an operator decides about a dead letter, by keyboard alone", async () => {
  const key = freshKey("decided");
  await pay(key, "pm_wrong_amount");
  const letter = await deadLetter(key);
  const page = await open(browser);
  await page.goto(`${operator}/console/dead-letters/${letter.id}`);
  await page.keyboard.type("wrong-key"); // The field has the focus.
  await page.keyboard.press("Enter");
  await page.getByRole("alert").waitFor();
  await page.keyboard.type("demo-operator-key");
  await page.keyboard.press("Enter");
  await page.waitForURL(`**/dead-letters/${letter.id}`); // back to where they came from
  const focus = () => page.evaluate(() => document.activeElement?.name || document.activeElement?.textContent.trim());
  const tabTo = async (name) => {
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press("Tab");
      if (await focus() === name) {
        return;
      }
    }
    assert.fail(`Tab does not reach ${name}`);
  };
  await tabTo("Skip to the content");
  await tabTo("action");
  await page.keyboard.press("ArrowDown"); // from retry to executed
  await tabTo("reason");
  await page.keyboard.type("seen at the PSP");
  await tabTo("Decide");
  await page.keyboard.press("Enter");
  await page.getByText("resolved", { exact: true }).waitFor();
  assert.equal((await pay(key, "pm_wrong_amount")).status, 201);
});

test("while it is live, nothing on the page moves but what grows", async () => {
  const page = await open(browser);
  await signIn(page);
  const boxes = () => page.$$eval("h1, h2, form, .picture", (all) => all.map((e) => e.getBoundingClientRect().top));
  await pay(freshKey("before"));
  await page.goto(operator + "/console/");
  await page.waitForTimeout(1500); // for the first messages
  const before = await boxes();
  const key = freshKey("still");
  await pay(key);
  await page.getByText(key).waitFor();
  assert.deepEqual((await boxes()).slice(0, -2), before.slice(0, -2)); // The list of keys grows above the last form.

  await page.goto(`${operator}/console/keys/acme/payments/${key}`);
  await status(page, "completed");
  const [title, picture] = await boxes();
  await pay(key);
  await page.locator(".steps").getByText("201, replayed").waitFor();
  assert.deepEqual((await boxes()).slice(0, 2), [title, picture]);
});

test("a lost payment: without script, the shop's page turns green by an event, told twice and taken once", async () => {
  const page = await open(browser, { javaScriptEnabled: false, viewport: { width: 390, height: 844 } });
  await page.goto(operator + "/shop");
  const button = page.getByRole("button", { name: "Buy, and lose the answer" });
  await button.focus();
  await page.keyboard.press("Enter");
  const order = page.locator("tbody tr").first();
  await order.locator(".status.warn", { hasText: "not paid yet" }).waitFor();
  await order.locator(".status.good", { hasText: "paid" }).waitFor(); // The page loads itself again.
  await order.getByText("delivered twice, taken once").waitFor();
  assert.equal(await page.getByText("taken twice").count(), 0);
  assert.deepEqual(page.complaints, []);

  // Nothing is to come any more, so the page stays.
  for (const [colorScheme, width] of [["light", 390], ["dark", 1440]]) {
    const seen = await open(browser, { colorScheme, viewport: { width, height: 900 } });
    await seen.goto(operator + "/shop");
    await seen.getByText("All that was expected has come.").waitFor();
    assert.deepEqual(await axe(seen), []);
    assert.ok(await seen.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `too wide at ${width}`);
    assert.deepEqual(seen.complaints, []);
  }

  // The console shows the same delivery, and an operator sends it again.
  const console = await open(browser);
  await signIn(console);
  await console.goto(operator + "/console/endpoints");
  await console.getByRole("link", { name: "/shop/…" }).click();
  await console.getByRole("row").filter({ hasText: "payment.succeeded" }).first().getByRole("link").click();
  await console.getByText("v1,••••").waitFor();
  await console.getByRole("button", { name: "Send this event again" }).press("Enter");
  await console.getByText("is delivered again.").waitFor();
  await order.getByText("taken once").waitFor();
  assert.deepEqual(console.complaints, []);
});
