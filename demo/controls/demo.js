// Sends the forms of the page without leaving it, so that the picture stays while a process is away. The answer to a form
// is the page again. If that page is about another key, its picture is shown, and the other buttons are for that key.
// Without this script, each button loads the page.
//
// What a button has done is said under the three buttons. While they are out of view, a strip at the bottom of the
// window says it.
"use strict";

const keyOf = (address) => new URL(address, location.href).searchParams.get("key");
const problem = document.getElementById("problem");
let shown = document.querySelector("main").dataset.key;
let latest = 0; // the number of the form that was sent last
if (shown) {
  history.replaceState(null, "", "?" + new URLSearchParams({ key: shown })); // so that "back" leads to this picture
}

const strip = document.getElementById("latest");
const held = document.getElementById("held-here");
const stripFor = 12_000; // milliseconds after the last change
const expectedFor = 10_000; // after kill -9, the API is back by then
const soon = 3_000; // what comes later than that after a press must not move the page
let pressed = false;
const seen = new Set(); // what says the same as the strip, and is in view
let stripEnds = 0;
let expectedEnds;
let stepPressed = -Infinity; // one of the three buttons

function showStrip() {
  // What is in view says the same. The comparison says nothing of other presses.
  const said = Array.from(seen).some((e) => e !== compared || strip.querySelector("[href='#compared']"));
  strip.hidden = !pressed || said || performance.now() > stripEnds;
}

new MutationObserver(() => {
  stripEnds = performance.now() + stripFor;
  showStrip();
  setTimeout(showStrip, stripFor + 1);
}).observe(strip, { childList: true, subtree: true, characterData: true });
const inView = new IntersectionObserver((entries) => {
  for (const e of entries) {
    const shows = e.boundingClientRect.height > 0 && e.intersectionRatio > (e.target === guide ? 0.3 : 0.1);
    seen[shows ? "add" : "delete"](e.target);
  }
  showStrip();
}, { threshold: [0, 0.1, 0.3, 0.6, 1] });
const guide = document.getElementById("guide");
inView.observe(guide);
const compared = document.getElementById("compared");
if (compared) {
  inView.observe(compared);
}
new MutationObserver(() => {
  if (performance.now() - stepPressed < soon) {
    guide.scrollIntoView({ block: "nearest" });
  }
}).observe(guide, { childList: true });

// The panel of a payment that is held. Its countdown runs here, and a choice leads the focus to what comes after it.
let chosen = false;

function count() {
  for (const e of held.querySelectorAll("[data-until]")) {
    const text = `for ${Math.max(0, Math.ceil((Number(e.dataset.until) - Date.now()) / 1000))} s`;
    if (e.textContent !== text) {
      e.textContent = text;
    }
  }
}

if (held) {
  inView.observe(held);
  new MutationObserver(() => {
    count();
    const next = held.querySelector("button");
    if (chosen && next && document.activeElement === document.body) {
      next.focus({ preventScroll: true });
    }
  }).observe(held, { childList: true });
  count();
  setInterval(count, 250);
}

// expect says that the streams of the API end because of what this page has done. offline is that of live.js.
function expect(form) {
  const killed = form.getAttribute("action") === "/demo/kill-api" || new FormData(form).get("action") === "kill";
  if (!killed) {
    return;
  }
  offline.dataset.expected = "The API was killed. This page waits for the next one.";
  offline.classList.remove("bad");
  clearTimeout(expectedEnds);
  expectedEnds = setTimeout(() => {
    delete offline.dataset.expected;
    offline.classList.add("bad");
  }, expectedFor);
}

function show(address, text) {
  const picture = new DOMParser().parseFromString(text, "text/html").getElementById("picture");
  document.getElementById("picture").replaceWith(picture);
  watch(picture);
  shown = keyOf(address);
  for (const field of document.querySelectorAll("input[data-shown-key]")) {
    field.value = shown;
  }
  for (const button of document.querySelectorAll("button[data-needs-key]")) {
    button.disabled = false;
  }
  history.pushState(null, "", address);
}

function complain(text) {
  problem.textContent = text;
  problem.hidden = !text;
  delete problem.dataset.untilBack;
}

// live.js hides #offline when the streams are back.
new MutationObserver(() => {
  if (offline.hidden && "untilBack" in problem.dataset) {
    complain("");
  }
}).observe(offline, { attributeFilter: ["hidden"] });

// send returns the answer to a form and its text, or nothing if there is none.
async function send(form) {
  try {
    // Not form.action: a field of that name would hide it.
    const body = new URLSearchParams(new FormData(form));
    const answer = await fetch(form.getAttribute("action"), { method: "POST", body });
    return { answer, text: await answer.text() };
  } catch {
    return null;
  }
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if ("leaves" in form.dataset) {
    return; // It leads to another page.
  }
  event.preventDefault();
  if (form.hasAttribute("aria-busy")) {
    return; // A double click is one press.
  }
  form.setAttribute("aria-busy", "true");
  pressed = true;
  chosen = held?.contains(form);
  if (form.closest(".first")) {
    stepPressed = performance.now();
  }
  expect(form);
  const number = ++latest;
  const sent = await send(form);
  form.removeAttribute("aria-busy");
  if (!sent) {
    complain("The demo does not answer. Is it still running?");
    problem.dataset.untilBack = "";
    return;
  }
  const { answer, text } = sent;
  complain(answer.ok ? "" : text);
  const key = keyOf(answer.url);
  if (answer.ok && number === latest && key && key !== shown) {
    show(answer.url, text);
  }
});

addEventListener("popstate", () => location.reload());
