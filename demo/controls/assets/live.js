// Keeps parts of a page up to date. An element with the attribute data-live names a stream of server-sent events. Each
// event "part" has JSON data, {"html": "..."}, which becomes the content of the element. While a stream is lost, the
// element with the id "offline" is shown. The text of an element with the attribute data-say is read to people who use
// a screen reader: it is copied to the element with the id "said" when it has changed.
"use strict";

const seen = new Set();
const lost = new Set();
let said = null;

function showOffline() {
  const offline = document.getElementById("offline");
  if (offline) offline.hidden = lost.size === 0;
}

function say(element) {
  const words = element.querySelector("[data-say]");
  const to = document.getElementById("said");
  if (!words || !to) return;
  if (said !== null && said !== words.textContent) to.textContent = words.textContent;
  said = words.textContent;
}

function connect(element, wait) {
  const stream = new EventSource(element.dataset.live);
  stream.addEventListener("open", () => {
    seen.add(element);
    lost.delete(element);
    wait = 1000;
    showOffline();
  });
  stream.addEventListener("part", (event) => {
    element.innerHTML = JSON.parse(event.data).html;
    say(element);
  });
  stream.addEventListener("error", () => {
    // A stream that was never there is not lost: the visitor may have no right to it.
    if (seen.has(element)) lost.add(element);
    showOffline();
    // The browser tries again by itself when a connection is lost, but not when the answer was an error.
    if (stream.readyState !== EventSource.CLOSED) return;
    setTimeout(() => connect(element, Math.min(2 * wait, 10000)), wait);
  });
}

for (const element of document.querySelectorAll("[data-live]")) {
  say(element);
  connect(element, 1000);
}
