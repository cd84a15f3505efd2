// Sends the forms of the page without leaving it, so that the picture stays while a process is away. The answer to a form
// is the page again. If that page is about another key, its picture is shown, and the other buttons are for that key.
// Without this script, each button loads the page.
"use strict";

const keyOf = (address) => new URL(address, location.href).searchParams.get("key");
const problem = document.getElementById("problem");
let shown = document.querySelector("main").dataset.key;
let latest = 0; // the number of the form that was sent last
if (shown) {
  history.replaceState(null, "", "?" + new URLSearchParams({ key: shown })); // so that "back" leads to this picture
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
}

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
  event.preventDefault();
  const form = event.target;
  if (form.hasAttribute("aria-busy")) {
    return; // A double click is one press.
  }
  form.setAttribute("aria-busy", "true");
  const number = ++latest;
  const sent = await send(form);
  form.removeAttribute("aria-busy");
  if (!sent) {
    complain("The demo does not answer. Is it still running?");
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
