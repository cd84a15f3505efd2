// Takes the pictures of the console that docs/ shows, and writes them into docs/pictures: a payment whose answer was
// lost, and which was refunded and disputed later; and a payment whose outcome only an operator can find out.
import { spawnSync } from "node:child_process";
import { api, deadLetter, eventually, freshKey, launch, open, operator, pay, psp, signIn } from "./lib.mjs";

const folder = new URL("../../docs/pictures/", import.meta.url);

async function asAcme(url, body, key) {
  const headers = { Authorization: "Bearer demo-acme-key", "Content-Type": "application/json" };
  const sent = { method: "POST", body: JSON.stringify(body), headers: { ...headers, "Idempotency-Key": JSON.stringify(key) } };
  return (await fetch(url, body ? sent : { headers })).json();
}

async function payment() {
  const { body: lost } = await pay(freshKey("order"), "pm_timeout_charged", { amountCents: 12000 });
  const url = `${api}/payments/${lost.paymentId}`;
  const paid = await eventually("the outcome", async () => {
    const now = await asAcme(url);
    return now.status === "succeeded" && now;
  });
  await asAcme(url + "/refunds", { amountCents: 2000 }, freshKey("refund"));
  await asAcme(psp + "/_disputes", { chargeId: paid.pspChargeId, amountCents: 5000, reason: "fraudulent" });
  await eventually("the dispute", async () => (await asAcme(url)).disputes?.length > 0);
  return `/payments/${lost.paymentId}`;
}

async function letter() {
  const key = freshKey("order");
  await pay(key, "pm_stuck");
  return `/dead-letters/${(await deadLetter(key)).id}`;
}

const browser = await launch();
const page = await open(browser, { viewport: { width: 1200, height: 700 }, colorScheme: "light" });
await signIn(page);
for (const [name, furnished] of [["payment", payment], ["dead-letter", letter]]) {
  await page.goto(operator + "/console" + await furnished());
  const path = new URL(`console-${name}.png`, folder).pathname;
  await page.screenshot({ path, fullPage: true });
  spawnSync("pngquant", ["--force", "--ext=.png", "64", path]); // where it is installed: a third of the size
}
await browser.close();
console.log("in docs/pictures");
