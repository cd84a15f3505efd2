// Keeps parts of a page up to date. An element with data-live names a stream of server-sent events. Each event "part"
// has JSON data: html becomes the content of the element, and trouble is a sentence to show. Each message has the whole
// content, so a page that was away catches up with the first one. Without this script, a page stays as it was loaded.
//
// A template in a part with data-for="id" is the content of another element of the page.
//
// The element #offline has the sentence that is shown while a stream is away, or data-expected has another one. A value with data-field is highlighted
// when it has changed. The text of data-say is copied to #said, where a screen reader reads it, when it has changed.
"use strict";

const offline = document.getElementById("offline");
const sentence = offline?.textContent;
const away = new Map(); // what is wrong with each part
const streams = new Map(); // the stream of each part
const loaded = new WeakMap(); // what a part has shown before its first message
const said = new WeakMap(); // what was said of each part

// tell shows what is wrong with a part, or that nothing is.
function tell(part, text) {
  if (text) {
    away.set(part, text);
  } else {
    away.delete(part);
  }
  if (offline) {
    offline.textContent = away.values().next().value ?? "";
    offline.hidden = away.size === 0;
  }
}

function fields(part) {
  return new Map(Array.from(part.querySelectorAll("[data-field]"), (e) => [e.dataset.field, e.textContent]));
}

// nameOf tells apart what can have the focus: two buttons or links of a part may change places.
function nameOf(element) {
  return element?.getAttribute("href") ?? (element?.tagName === "BUTTON" ? element.textContent : null);
}

// A page of the console says when it was made, so a wrong clock of this machine does not matter. A time says how long ago
// it is; the time itself is its title.
const made = Date.parse(document.documentElement.dataset.now);
const ahead = made - Date.now();

function relate(root) {
  if (Number.isNaN(made)) {
    return;
  }
  for (const e of root.querySelectorAll("time[datetime]")) {
    e.title ||= e.textContent + " UTC";
    const seconds = Math.round((Date.now() + ahead - Date.parse(e.dateTime)) / 1000);
    const [size, name] = [[86400, "d"], [3600, "h"], [60, "min"]].find(([s]) => Math.abs(seconds) >= s) ?? [1, "s"];
    const text = `${Math.floor(Math.abs(seconds) / size)} ${name}`;
    const said = seconds < 0 ? "in " + text : text + " ago";
    if (e.textContent !== said) {
      e.textContent = said;
    }
  }
}
relate(document);
setInterval(relate, 1000, document);

// fill replaces the content of an element. It keeps what the reader has scrolled to, what has the focus, and what was
// unfolded.
function fill(part, html) {
  const boxes = () => Array.from(part.querySelectorAll(".picture, .scroll"));
  const places = () => Array.from(part.querySelectorAll("a[href], [tabindex], button"));
  const before = fields(part);
  const left = boxes().map((e) => e.scrollLeft);
  const folds = () => Array.from(part.querySelectorAll("details"));
  const open = folds().map((e) => e.open);
  const place = places().indexOf(document.activeElement);
  const name = nameOf(document.activeElement);
  part.innerHTML = html;
  boxes().forEach((e, i) => { e.scrollLeft = left[i] ?? 0; });
  folds().forEach((e, i) => { e.open = open[i] ?? e.open; });
  relate(part);
  if (place >= 0) {
    const same = name ? places().find((e) => nameOf(e) === name) : places()[place];
    same?.focus({ preventScroll: true });
  }
  if (before.size > 0) {
    for (const e of part.querySelectorAll("[data-field]")) {
      e.classList.toggle("changed", before.get(e.dataset.field) !== e.textContent);
    }
  }
}

// replace shows a message. While the reader has selected text in a part, the part stays as it is, and the next message
// finds it free.
function replace(part, html) {
  const selection = getSelection();
  if (!selection.isCollapsed && part.contains(selection.anchorNode)) {
    return;
  }
  fill(part, html);
  for (const template of part.querySelectorAll("template[data-for]")) {
    const place = document.getElementById(template.dataset.for);
    if (place && place.innerHTML !== template.innerHTML) {
      fill(place, template.innerHTML);
    }
  }
  const words = part.querySelector("[data-say]")?.textContent;
  const to = document.getElementById("said");
  if (to && words && words !== said.get(part)) {
    said.set(part, words);
    to.textContent = words;
  }
}

function connect(part) {
  if (document.hidden || !part.isConnected) {
    return;
  }
  if (!loaded.has(part)) {
    loaded.set(part, part.innerHTML);
    said.set(part, part.querySelector("[data-say]")?.textContent);
  }
  streams.get(part)?.close();
  const stream = new EventSource(part.dataset.live);
  streams.set(part, stream);
  stream.addEventListener("part", (event) => {
    const message = JSON.parse(event.data);
    tell(part, message.trouble);
    if (message.html) {
      replace(part, message.html);
    }
  });
  // There is no session, or it has ended. A page of the console leads to where people sign in. On a page that needs
  // no session, the part shows again what it was loaded with: a link to there.
  stream.addEventListener("signed-out", () => {
    stream.close();
    tell(part, "");
    if (location.pathname.startsWith("/console/")) {
      location.reload();
    } else {
      replace(part, loaded.get(part));
    }
  });
  stream.addEventListener("error", () => {
    tell(part, offline?.dataset.expected ?? sentence);
    // The browser connects again by itself after a lost connection, but not after an answer that is no stream.
    if (stream.readyState === EventSource.CLOSED) {
      setTimeout(connect, 1000, part);
    }
  });
}

// watch connects the parts below an element, and gives up those that are not in the page any more.
function watch(root) {
  for (const [part, stream] of streams) {
    if (!part.isConnected) {
      stream.close();
      streams.delete(part);
      tell(part, "");
    }
  }
  root.querySelectorAll("[data-live]").forEach(connect);
}
watch(document);

// A browser opens six connections to a server at most, so a page that nobody sees gives its own back.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    streams.forEach((stream) => stream.close());
  } else {
    watch(document);
  }
});
