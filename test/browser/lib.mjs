// What the tests and the screenshots share: a browser that fails on everything that its console complains about, the
// pages there are, and a client of the API.
import { createRequire } from "node:module";
import { readFile } from "node:fs/promises";
import { chromium } from "playwright-core";

export const api = process.env.API_URL;
export const operator = process.env.OPERATOR_URL;
export const psp = process.env.PSP_URL;
if (!api || !operator || !psp) {
  throw new Error("make browser and make screenshots start a demo and run this; it needs its addresses");
}

// patience bounds every wait for an event, in milliseconds. Reaching it is a failure, not a measurement.
export const patience = 60_000;

// A description that tries to be markup, to write from right to left, and to be four bytes a character.
export const hostile = `<script>document.title="owned"</script><img src=x onerror=alert(1)> \u202eabc\u202c 😀😀 {{.}} & "quotes"`;

export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM,
    // As root, Chromium runs only without its sandbox. The other arguments keep it from asking for anything elsewhere.
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync"],
  });
}

// open is a page of a window of its own. complaints has what the browser's console says: refusals of the
// Content-Security-Policy, errors of scripts, requests that failed.
export async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  page.complaints = [];
  page.on("console", (m) => {
    if (m.type() === "error" || m.type() === "warning") {
      page.complaints.push(`${page.url()}: ${m.text()}`);
    }
  });
  page.on("pageerror", (e) => page.complaints.push(`${page.url()}: ${e}`));
  page.on("request", (r) => {
    if (![api, operator, psp].some((ours) => r.url().startsWith(ours)) && !r.url().startsWith("data:")) {
      page.complaints.push(`${page.url()} asks ${r.url()}`);
    }
  });
  return page;
}

export async function signIn(page, key = "demo-operator-key") {
  await page.goto(operator + "/console/sign-in");
  await page.fill("input[name=key]", key);
  await page.click("main button");
}

let number = 0;
export const freshKey = (name) => `browser-${name}-${Date.now()}-${number++}`;

// pay sends a payment as a client does, and returns the status and the problem's code.
export async function pay(key, paymentMethod = "pm_ok", more = {}) {
  const response = await fetch(api + "/payments", {
    method: "POST",
    headers: {
      Authorization: "Bearer demo-acme-key", "Content-Type": "application/json", "Idempotency-Key": JSON.stringify(key),
    },
    body: JSON.stringify({ customerId: "cus-1", amountCents: 1200, currency: "USD", paymentMethod, ...more }),
  });
  const body = await response.json();
  return { status: response.status, replayed: response.headers.get("Idempotent-Replayed") === "true", body };
}

// charges is how often the PSP has charged under a key, whatever we believe.
export async function charges(key) {
  const query = new URLSearchParams({ account: "acme", idempotencyKey: key });
  const ledger = await (await fetch(`${psp}/_ledger?${query}`)).json();
  return ledger.charges.filter((c) => c.status === "succeeded").length;
}

export async function eventually(what, holds) {
  for (const end = Date.now() + patience; ;) {
    const value = await holds();
    if (value) {
      return value;
    }
    if (Date.now() > end) {
      throw new Error(`waited in vain for ${what}`);
    }
    await new Promise((done) => setTimeout(done, 100));
  }
}

const ops = (path, init = {}) => fetch(operator + "/operator" + path, {
  ...init, headers: { Authorization: "Bearer demo-operator-key", "Content-Type": "application/json" },
});

// deadLetter is an open dead letter of a key.
export function deadLetter(key) {
  return eventually(`a dead letter of ${key}`, async () => {
    const list = await (await ops("/dead-letters?limit=100")).json();
    return list.data.find((l) => l.key === key);
  });
}

// furnish makes something of everything that the pages show, and returns the pages with their names.
export async function furnish() {
  const paid = freshKey("paid"), wrong = freshKey("wrong"), strange = freshKey("strange");
  await pay(paid);
  await pay(paid);
  await pay(paid, "pm_declined");
  await pay(strange, "pm_ok", { description: hostile, metadata: { note: hostile } });
  await pay(wrong, "pm_wrong_amount");
  const letter = await deadLetter(wrong);
  const closed = freshKey("closed");
  await pay(closed, "pm_wrong_amount");
  const other = await deadLetter(closed);
  await ops(`/dead-letters/${other.id}/resolve`, {
    method: "POST", body: JSON.stringify({ action: "executed", reason: hostile, version: other.version }),
  });
  await fetch(operator + "/demo/compare", { method: "POST", body: new URLSearchParams({ fate: "lost" }) });
  const { body: payment } = await pay(paid);
  await fetch(`${api}/payments/${payment.paymentId}/refunds`, {
    method: "POST", body: '{"amountCents":200}',
    headers: {
      Authorization: "Bearer demo-acme-key", "Content-Type": "application/json",
      "Idempotency-Key": JSON.stringify(freshKey("refund")),
    },
  });
  const asAcme = async (path) => (await fetch(api + path, { headers: { Authorization: "Bearer demo-acme-key" } })).json();
  const [endpoint] = (await eventually("the shop's endpoint", async () => {
    const list = await asAcme("/webhook-endpoints");
    return list.data.length > 0 && list;
  })).data;
  const [told] = (await eventually("an event", async () => {
    const feed = await asAcme("/events?limit=1");
    return feed.data?.length > 0 && feed;
  })).data;
  const endpointPage = `${operator}/console/endpoints/acme/${endpoint.endpointId}`;
  return {
    start: api + "/", problems: api + "/problems", problem: api + "/problems/idempotency_key_in_progress",
    reader: api + "/docs", "operators-reader": operator + "/docs", psp: psp + "/",
    overview: operator + "/console/", key: `${operator}/console/keys/acme/payments/${paid}`,
    "key-hostile": `${operator}/console/keys/acme/payments/${strange}`,
    "key-nobody-has-used": `${operator}/console/keys/acme/payments/${freshKey("unused")}`,
    payments: operator + "/console/payments", payment: `${operator}/console/payments/${payment.paymentId}`,
    keys: operator + "/console/keys", "keys-none": operator + "/console/keys?tenant=nobody",
    webhooks: operator + "/console/webhooks", endpoints: operator + "/console/endpoints", endpoint: endpointPage,
    delivery: `${endpointPage}/events/${told.id}`, statements: operator + "/console/statements",
    books: `${operator}/console/books?account=acme&day=2026-11-20`, breaks: operator + "/console/breaks", search: operator + "/console/search",
    found: `${operator}/console/search?q=${paid}`,
    "dead-letters": operator + "/console/dead-letters",
    "dead-letters-resolved": operator + "/console/dead-letters?status=resolved",
    "dead-letter": `${operator}/console/dead-letters/${letter.id}`,
    "dead-letter-resolved": `${operator}/console/dead-letters/${other.id}`,
    demo: `${operator}/demo/?key=${paid}`,
  };
}

const require = createRequire(import.meta.url);
const axeSource = await readFile(require.resolve("axe-core/axe.min.js"), "utf8");

// axe lists what hinders people with disabilities, by the rules of WCAG 2.2 A and AA and the best practices.
export async function axe(page) {
  await page.evaluate(axeSource);
  const result = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return result.violations.map((v) => `${page.url()}: ${v.id}: ${v.nodes.map((n) => n.target.join(" ")).join(", ")}`);
}
