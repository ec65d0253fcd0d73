// The page's own script. Without it the page still shows and decides everything; with it the page is live and takes keys.
"use strict";

const byId = (id) => document.getElementById(id);
const items = () => [...byId("items").querySelectorAll("[data-key]")];
const stay = 8000; // how long what was decided stays visible, in ms

let stream, retry;
let heard = Date.now(); // when the bridge was last heard of
let first = true; // the next news are what the page shows already
let busy = false; // a decision is on its way
let still = 0; // from when on a click or a key decides: a person must have seen what they decide
let placed = 0; // from when on a click decides: the button must be where the person saw it
let pointed = false; // the person used the pointer last, and not a key
let asked = 0; // counts the pages that were asked for, so that a late one does not replace a newer one
let led = -1e9; // when g was pressed, which leads to a place with the next key
let path = location.pathname; // the place that is shown
let sent = false; // a form is on its way that a whole page answers
let enough = false; // another window took this one's place
let waiting = null; // news that are not shown while somebody reads
const kept = new Map(); // the parts of such news, by key: the bridge sends each part once

const sight = 1000; // how long a card must stand still before it can be decided, in ms
const shifted = () => { placed = performance.now() + sight; };
const moved = () => {
  still = performance.now() + sight;
  shifted();
};

function span(seconds) {
  if (seconds < 60) return Math.max(0, Math.floor(seconds)) + " s";
  if (seconds < 3600) return Math.floor(seconds / 60) + " min";
  if (seconds < 48 * 3600) return Math.floor(seconds / 3600) + " h";
  return Math.floor(seconds / 86400) + " d";
}

// Ages count up, and the page says when it is not live.
function tick() {
  for (const t of document.querySelectorAll("time[datetime]")) {
    const at = new Date(t.dateTime);
    const clock = at.toDateString() === new Date().toDateString() ? at.toLocaleTimeString() : at.toLocaleString();
    t.textContent = t.classList.contains("clock") ? clock : span((Date.now() - at) / 1000);
    t.title = at.toLocaleString();
  }
  const live = stream && stream.readyState === EventSource.OPEN && Date.now() - heard < 40000;
  byId("live").className = "right " + (live ? "live" : "away");
  const away = (enough ? "open in other windows" : "reconnecting") + ", last news " + span((Date.now() - heard) / 1000) + " ago";
  byId("live").textContent = live ? "live" : away;
}

function listen() {
  if (stream) stream.close();
  clearTimeout(retry);
  enough = false;
  stream = new EventSource("/live?" + byId("main").dataset.live);
  stream.addEventListener("open", () => { heard = Date.now(); tick(); });
  stream.addEventListener("beat", () => { heard = Date.now(); });
  stream.addEventListener("news", (e) => { heard = Date.now(); take(JSON.parse(e.data)); tick(); });
  stream.addEventListener("enough", () => {
    enough = true;
    stream.close();
    tick();
  });
  stream.addEventListener("error", () => {
    tick();
    if (stream.readyState === EventSource.CLOSED) retry = setTimeout(again, 3000);
  });
}

// again comes back to a bridge that refused the stream: somebody may have to log in.
async function again() {
  const answer = await fetch("/", { method: "HEAD" }).catch(() => null);
  if (answer && answer.status === 401) location.reload();
  else listen();
}

function made(html) {
  const t = document.createElement("template");
  t.innerHTML = html;
  return t.content.firstElementChild;
}

// put replaces what a person may be reading or writing into, and keeps what is open and what was written.
function put(old, fresh) {
  const folds = [...old.querySelectorAll("details")];
  const focused = old === document.activeElement;
  const writing = old.contains(document.activeElement);
  old.replaceWith(fresh);
  if (focused) fresh.focus({ preventScroll: true });
  [...fresh.querySelectorAll("details")].forEach((fold, i) => {
    const was = folds[i];
    if (!was || (!fresh.matches(".event") && was.firstElementChild.textContent !== fold.firstElementChild.textContent)) return;
    fold.open = was.open;
    const input = fold.querySelector("input[name=value]");
    if (!input) {
      if (writing) fold.firstElementChild.focus({ preventScroll: true });
      return;
    }
    input.value = was.querySelector("input[name=value]").value;
    if (writing && was.open) input.focus();
  });
  if (!fresh.classList.contains("now")) return;
  moved();
  fresh.classList.add("changed");
}

function fade(row) {
  setTimeout(() => {
    if (row.isConnected) shifted();
    row.remove();
  }, stay);
}

// say shows a sentence for some seconds.
function say(text) {
  const el = byId("fresh");
  el.textContent = text;
  el.hidden = false;
  clearTimeout(el.timer);
  el.timer = setTimeout(() => { el.hidden = true; }, stay);
}

// Who reads the timeline further down, or has an event open, goes on reading: what is new waits until they are at the top again.
const reading = () => byId("main").dataset.place === "timeline" && (scrollY > 80 || document.querySelector(".event details[open]"));

function take(news) {
  const there = new Map(items().map((el) => [el.dataset.key, el.dataset.hash]));
  const known = new Set(news.items.map((part) => part.key));
  for (const part of news.items) if (part.html) kept.set(part.key, part);
  for (const key of kept.keys()) if (!known.has(key)) kept.delete(key);
  const more = news.items.filter((part) => !there.has(part.key)).length;
  const wait = reading() && news.items.some((part) => there.get(part.key) !== part.hash);
  byId("newer").hidden = !wait;
  byId("newer").textContent = more === 1 ? "1 new event" : more === 0 ? "Show what changed" : more >= 100 ? "100 or more new events" : more + " new events";
  waiting = wait ? news : null;
  if (wait) return counts(news);
  for (const part of news.items) {
    const one = kept.get(part.key);
    if (one && one.hash === part.hash) part.html = one.html;
  }
  kept.clear();
  show(news);
}

// settle shows what waited, once nobody reads.
function settle() {
  if (waiting && !reading()) take(waiting);
}

function show(news) {
  const atEnd = ["agent", "box"].includes(byId("main").dataset.place) && innerHeight + scrollY > document.body.scrollHeight - 60;
  const there = new Map(items().map((el) => [el.dataset.key, el]));
  for (const gone of news.gone || []) {
    const old = there.get(gone.key);
    if (!old || "done" in old.dataset) continue;
    const row = made(gone.html);
    old.replaceWith(row);
    shifted();
    there.set(gone.key, row);
    fade(row);
  }
  const fresh = [];
  let before = null;
  for (const part of news.items) {
    let el = there.get(part.key);
    if (part.html && (!el || el.dataset.hash !== part.hash)) {
      const now = made(part.html);
      if (el) put(el, now);
      else {
        if (before) before.after(now);
        else byId("items").prepend(now);
        fresh.push(now);
        shifted();
      }
      el = now;
      there.set(part.key, el);
    }
    if (!el || !el.isConnected) continue;
    // What stands in another order elsewhere moves; what waits for a person does not move under their hand.
    if (byId("main").dataset.place !== "needs" && el.previousElementSibling !== before) {
      if (before) before.after(el);
      else byId("items").prepend(el);
    }
    before = el;
  }
  // What stands here and does not wait any more was decided while the page was not live.
  const waits = new Set(news.items.map((p) => p.key));
  for (const el of items()) {
    if (waits.has(el.dataset.key) || "done" in el.dataset) continue;
    el.remove();
    shifted();
  }
  counts(news);
  const side = byId("side");
  if (side && news.side.html && side.dataset.hash !== news.side.hash) put(side, made(news.side.html));
  if (!first && byId("main").dataset.place === "needs") arrived(fresh);
  first = false;
  if (atEnd) scrollTo({ top: document.body.scrollHeight }); // who reads the end goes on reading it
}

function counts(news) {
  const title = news.title + " · Drawbridge";
  document.title = news.count ? "(" + news.count + ") " + title : title;
  byId("count").textContent = news.count || "";
  byId("count").classList.toggle("hot", news.count > 0);
  byId("sub").textContent = news.sub;
  byId("quiet").textContent = news.quiet;
  byId("quiet").hidden = news.items.length > 0;
  const more = byId("more");
  if (!more || waiting) return;
  more.hidden = !news.more;
  if (news.more) more.href = news.more;
}

// arrived says what is new, and opens it if nothing else is open.
function arrived(fresh) {
  if (!fresh.length) return;
  const line = fresh[0].querySelector(".line, p");
  const text = line ? line.textContent.trim() : "";
  say(fresh.length === 1 ? "New: " + text : fresh.length + " new");
  if (document.hidden && "Notification" in window && Notification.permission === "granted") {
    try {
      new Notification("Drawbridge needs you", { body: text, tag: "needs" }).onclick = () => window.focus();
    } catch { /* some browsers on phones have none */ }
  }
  if (!document.querySelector(".card.now")) go(fresh[0].getAttribute("href"), false);
}

// swap shows another state of the page that the server made.
function swap(html, address, remember) {
  const next = new DOMParser().parseFromString(html, "text/html");
  if (!next.getElementById("main")) {
    const error = next.querySelector(".error");
    say(error ? error.textContent.trim() : "You are not logged in any more, or the bridge did not answer. Load the page again.");
    return;
  }
  byId("main").replaceWith(next.getElementById("main"));
  byId("count").replaceWith(next.getElementById("count"));
  document.title = next.title;
  const to = new URL(address).pathname;
  const here = to === "/decide" ? location.pathname : to;
  if (remember && here !== location.pathname) history.pushState(null, "", here);
  else history.replaceState(null, "", here === location.pathname ? here + location.hash : here);
  path = location.pathname;
  ready(true);
}

async function go(address, remember) {
  const mine = ++asked;
  const answer = await fetch(address).catch(() => null);
  const html = answer && await answer.text();
  if (mine !== asked) return;
  if (answer) swap(html, answer.url, remember);
  else location.assign(address);
}

// ready is called for each state of the page; the first one has no focus of its own.
function ready(focus) {
  first = true;
  waiting = null;
  kept.clear();
  moved();
  for (const row of document.querySelectorAll("[data-done]")) fade(row);
  listen();
  tick();
  const card = document.querySelector(".card.now");
  if (card && focus) card.focus({ preventScroll: card.getBoundingClientRect().top >= 0 && card.getBoundingClientRect().bottom <= innerHeight });
}

document.addEventListener("click", (e) => {
  const row = e.target.closest("a.row:not(.agent)");
  if (!row || e.button || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
  e.preventDefault();
  go(row.href, true);
});

document.addEventListener("submit", async (e) => {
  const form = e.target;
  if (!form.action.endsWith("/decide")) { // a whole page answers: a second click says nothing twice
    if (sent) e.preventDefault();
    sent = form.method === "post";
    return;
  }
  e.preventDefault();
  if (busy) return;
  if (performance.now() < (pointed ? placed : still)) {
    say("The page has just changed. Look at the card, and decide again.");
    return;
  }
  busy = true;
  const mine = ++asked;
  const body = new URLSearchParams(new FormData(form, e.submitter));
  const answer = await fetch(form.action, { method: "POST", body }).catch(() => null);
  const html = answer && await answer.text().catch(() => null);
  busy = false;
  if (!html) say("The bridge did not answer. It may have received your decision; look again when the page is live.");
  else if (mine === asked) swap(html, answer.url, false);
});

document.addEventListener("pointerdown", () => { pointed = true; }, true);
document.addEventListener("keydown", () => { pointed = false; }, true);
document.addEventListener("keydown", (e) => {
  if (e.key === "Escape" && e.target.closest("input, textarea")) e.target.blur();
  if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && e.target.closest("textarea")) e.target.form.requestSubmit();
  if (e.target.closest("input, textarea, dialog") || e.metaKey || e.ctrlKey || e.altKey || e.repeat) return;
  if (performance.now() < still && e.key.length === 1) moved(); // somebody who types in mid-word did not mean this page
  if (e.key === "g") {
    led = performance.now();
    return;
  }
  if (performance.now() - led < 1500) { // the second key of two goes to a place, and never decides
    led = -1e9;
    const place = document.querySelector("[data-letter='" + CSS.escape(e.key) + "']");
    if (place) location.assign(place.href);
    return;
  }
  const all = items();
  const card = document.querySelector(".card.now");
  const at = document.activeElement.closest("[data-key]") || card;
  if (e.key === "?") byId("keys").showModal();
  if (e.key === "j" || e.key === "k") {
    const next = all[all.indexOf(at) + (e.key === "j" ? 1 : -1)];
    if (next) (next.querySelector(":scope > details > summary") || next).focus();
  }
  const form = at === card && card && card.querySelector("form[data-shortcut='" + CSS.escape(e.key) + "']");
  if (!form) return;
  e.preventDefault();
  const more = form.querySelector("details");
  if (!more) form.requestSubmit(form.querySelector("button"));
  else {
    more.open = true;
    more.querySelector("input").focus();
  }
});

addEventListener("scroll", settle, { passive: true });
document.addEventListener("toggle", settle, true);
document.addEventListener("click", (e) => {
  if (e.target.id !== "newer") return;
  for (const open of document.querySelectorAll(".event details[open]")) open.open = false;
  scrollTo({ top: 0 });
  settle();
});

window.addEventListener("popstate", () => {
  if (location.pathname !== path) go(location.href, false); // a link to a turn stays on the page
});
window.addEventListener("pageshow", () => { sent = false; });
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && stream.readyState !== EventSource.OPEN) listen();
});

byId("keys-open").hidden = false;
byId("keys-open").addEventListener("click", () => byId("keys").showModal());
if ("Notification" in window && Notification.permission === "default") {
  byId("notify").hidden = false;
  byId("notify").addEventListener("click", async () => { byId("notify").hidden = (await Notification.requestPermission()) !== "default"; });
}
setInterval(tick, 1000);
ready(false);
