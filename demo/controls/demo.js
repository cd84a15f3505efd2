// Sends the forms of the page without leaving it, so that the picture stays while a process is away. The answer to a form
// is the page again. If that page is about another key, its picture is shown, and the other buttons are for that key.
// Without this script, each button loads the page.
"use strict";

const keyOf = (address) => new URL(address, location.href).searchParams.get("key");
const problem = document.getElementById("problem");
let shown = document.querySelector("main").dataset.key;

function show(page, key) {
  shown = key;
  const picture = page.getElementById("picture");
  document.getElementById("picture").replaceWith(picture);
  watch(picture);
  for (const field of document.querySelectorAll("input[data-shown-key]")) {
    field.value = key;
  }
  for (const button of document.querySelectorAll("button[data-needs-key]")) {
    button.disabled = false;
  }
}

document.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  try {
    const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
    const text = await answer.text();
    problem.hidden = answer.ok;
    if (!answer.ok) {
      problem.textContent = text;
    } else if (keyOf(answer.url) && keyOf(answer.url) !== shown) {
      history.pushState(null, "", answer.url);
      show(new DOMParser().parseFromString(text, "text/html"), keyOf(answer.url));
    }
  } catch {
    problem.textContent = "The demo does not answer. Is it still running?";
    problem.hidden = false;
  }
});

addEventListener("popstate", () => location.reload());
