// The console's one script: asks for the page again when something has changed and puts the changed
// parts in place, counts time, moves along lists and to decisions by keys, and tells of new requests on the desktop of
// whoever asked for that. Every page works without it.

const main = document.querySelector("main[data-live]");
const offline = document.getElementById("link");

/* ---- time ---- */

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

function length(ms) {
  let rest = Math.max(0, Math.floor(ms / 1000));
  if (rest === 0) return "0 s";
  const parts = [];
  for (const [seconds, unit] of UNITS) {
    if (rest >= seconds && parts.length < 2) {
      parts.push(`${Math.floor(rest / seconds)} ${unit}`);
      rest %= seconds;
    } else if (parts.length > 0) break;
  }
  return parts.join(" ");
}

// The server's clock decides about deadlines; ours may be wrong by as much as this.
let skew = 0;

function tick() {
  const now = Date.now() + skew;
  for (const time of document.querySelectorAll("time[data-ago]")) {
    const ms = now - Number(time.dataset.ago);
    put(time, ms < 5000 ? "just now" : `${length(ms)} ago`);
  }
  for (const time of document.querySelectorAll("time[data-deadline]")) {
    const left = Number(time.dataset.deadline) - now;
    put(time, left <= 0 ? "deadline passed" : `due in ${length(left)}`);
    time.toggleAttribute("data-soon", left < 3600000);
  }
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Points in time in the reader's own zone.
function localise(root) {
  for (const time of root.querySelectorAll("time:not([data-ago], [data-deadline])")) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.valueOf())) put(time, at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" }));
  }
}

/* ---- what has changed ---- */

let asking = false;
let askAgain = false;

async function refresh() {
  if (asking) { askAgain = true; return; }
  asking = true;
  try {
    const response = await fetch(location.href, { headers: { accept: "text/html" }, credentials: "same-origin" });
    if (response.status === 401) { location.reload(); return; }
    const date = Date.parse(response.headers.get("date") ?? "");
    if (!Number.isNaN(date)) skew = Math.abs(date - Date.now()) > 5000 ? date - Date.now() : 0;
    const next = new DOMParser().parseFromString(await response.text(), "text/html");
    if (next.querySelector("main[data-live]")) {
      for (const fresh of next.querySelectorAll("[data-swap][id]")) swap(fresh);
      document.title = next.title;
      tell();
      // A stream that is taken up again goes on from what is shown now.
      main.dataset.live = next.querySelector("main[data-live]").dataset.live;
      offline.hidden = true;
      tick();
    }
  } catch {
    // The stream says when the server is back.
  } finally {
    asking = false;
    if (askAgain) { askAgain = false; setTimeout(refresh, 200); }
  }
}

function swap(fresh) {
  const old = document.getElementById(fresh.id);
  if (!old) return;
  // A form that still asks the same thing is left to whoever is filling it in.
  if (old.dataset.keep && old.dataset.keep === fresh.dataset.keep) return;
  const made = document.importNode(fresh, true);
  localise(made);
  if (made.isEqualNode(old)) return;
  // A line that is spoken is changed in place, so that it is spoken.
  if (old.getAttribute("role") === "status" && old.id === "announce") { put(old, made.textContent); return; }
  for (const details of old.querySelectorAll("details[id][open]")) {
    made.querySelector(`details[id="${CSS.escape(details.id)}"]`)?.setAttribute("open", "");
  }
  for (const field of old.querySelectorAll("input[id], textarea[id]")) {
    const again = made.querySelector(`[id="${CSS.escape(field.id)}"]`);
    if (again && field.value !== field.defaultValue) again.value = field.value;
  }
  keep(old, made);
  mark(old, made);
  // Whoever is at the newest stays with it.
  const end = old.querySelector("#now")?.getBoundingClientRect();
  const isAtEnd = end && end.top < innerHeight + 40 && end.bottom > 0;
  const focused = old.contains(document.activeElement) ? address(document.activeElement) : null;
  old.replaceWith(made);
  watchEnds(made);
  if (isAtEnd) made.querySelector("#now")?.scrollIntoView({ block: "end" });
  if (focused) (made.querySelector(focused) ?? main).focus({ preventScroll: true });
}

// What somebody had typed outlives the form: it was closed by another's answer, and may be wanted elsewhere.
function keep(old, made) {
  const typed = [...old.querySelectorAll("form.answer textarea")].filter((field) => field.value.trim() && field.value !== field.defaultValue && !made.querySelector(`[id="${CSS.escape(field.id)}"]`));
  const before = old.querySelector("#typed")?.querySelectorAll("textarea") ?? [];
  if (typed.length + before.length === 0) return;
  const box = document.createElement("section");
  box.id = "typed";
  box.className = "panel";
  box.setAttribute("aria-label", "What you had typed");
  const words = document.createElement("p");
  words.textContent = "What you had typed was not sent:";
  box.append(words);
  for (const field of [...before, ...typed]) {
    const copy = document.createElement("textarea");
    copy.readOnly = true;
    copy.rows = 3;
    copy.setAttribute("aria-label", "What you had typed");
    copy.value = field.value;
    box.append(copy);
  }
  (made.querySelector(".closed") ?? made.querySelector("h1"))?.after(box);
}

// What was not there before is shown for a moment.
function mark(old, made) {
  const known = new Set([...old.querySelectorAll(".card a.title")].map((link) => link.href));
  for (const link of made.querySelectorAll(".card a.title")) {
    if (!known.has(link.href)) link.closest(".card").classList.add("arrived");
  }
}

// Where the focus was, by id or by where a link leads.
function address(element) {
  if (element.id) return `[id="${CSS.escape(element.id)}"]`;
  const href = element.getAttribute("href");
  return href ? `a[href="${CSS.escape(href)}"]` : null;
}

/* ---- the stream ---- */

let stream = null;
let isOver = false;
let patience = 0;

function listen() {
  if (stream || isOver || isAsleep()) return;
  stream = new EventSource(main.dataset.live);
  let wasCut = false;
  stream.addEventListener("hello", () => {
    lose();
    offline.hidden = true;
    if (wasCut) refresh();
    wasCut = false;
  });
  stream.addEventListener("changed", refresh);
  stream.addEventListener("over", () => { isOver = true; hush(); refresh(); });
  stream.addEventListener("error", () => {
    wasCut = true;
    // A stream has its time, and ends; only a server that stays away is worth a word.
    patience ||= setTimeout(() => { offline.hidden = false; }, 2000);
    // Browsers give up on an answer that is no stream; we do not.
    if (stream?.readyState === EventSource.CLOSED) { hush(); offline.hidden = false; setTimeout(() => { listen(); refresh(); }, 1500); }
  });
}

function lose() {
  clearTimeout(patience);
  patience = 0;
}

function hush() {
  lose();
  stream?.close();
  stream = null;
}

/* ---- the desktop ---- */

// A window that nobody looks at asks for nothing, unless its person wants to be told.
function isAsleep() {
  return document.visibilityState === "hidden" && !wantsToBeTold();
}

function wantsToBeTold() {
  return "Notification" in window && Notification.permission === "granted" && document.cookie.includes("holdpoint_tell=yes");
}

let told = document.getElementById("newest")?.dataset.asked ?? "";

// Tells of the newest request, once; and counts on the icon, where there is one.
function tell() {
  const newest = document.getElementById("newest");
  const open = Number(newest?.dataset.open ?? 0);
  if (open > 0) navigator.setAppBadge?.(open); else navigator.clearAppBadge?.();
  const { asked = "", address, words } = newest?.dataset ?? {};
  const isNew = asked > told;
  if (isNew) told = asked;
  if (!isNew || document.visibilityState !== "hidden" || !wantsToBeTold()) return;
  const note = new Notification("Holdpoint: a request waits", { body: words, tag: "holdpoint" });
  note.onclick = () => { window.focus(); location.href = address; };
}

const bell = document.getElementById("bell");
if (bell && "Notification" in window && Notification.permission !== "denied") {
  const show = () => put(bell, wantsToBeTold() ? "Stop telling me on this desktop" : "Tell me on this desktop");
  bell.hidden = false;
  show();
  bell.addEventListener("click", async () => {
    const isOn = wantsToBeTold();
    if (!isOn && (await Notification.requestPermission()) !== "granted") return;
    document.cookie = `holdpoint_tell=${isOn ? "no" : "yes"}; Path=/console; Max-Age=31536000; SameSite=Strict`;
    show();
  });
}

/* ---- keys ---- */

// A letter leads to a decision and Enter takes it: no single slip of a finger decides.
function byLetter(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, textarea, select, dialog")) return;
  const help = document.getElementById("keys");
  if (event.key === "?" && help) { event.preventDefault(); help.showModal(); return; }
  const list = document.querySelector("[data-arrows]");
  const step = { j: 1, k: -1 }[event.key];
  if (step && list) {
    const links = [...list.querySelectorAll("a.title")];
    const next = links[links.indexOf(document.activeElement) + step];
    if (next) { event.preventDefault(); next.focus(); }
    return;
  }
  if (!/^[arejk]$/.test(event.key)) return;
  const meant = document.querySelector(`main [data-key="${event.key}"]`);
  if (!meant) return;
  event.preventDefault();
  if (meant.matches("a")) meant.click();
  else { meant.focus(); meant.scrollIntoView({ block: "nearest" }); }
}

document.addEventListener("keydown", (event) => {
  byLetter(event);
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const list = event.target.closest?.("[data-arrows]");
  if (step && list) {
    const links = [...list.querySelectorAll("a.title")];
    const next = links[links.indexOf(event.target) + step];
    if (next) { event.preventDefault(); next.focus(); }
  }
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches?.("textarea[data-send]")) {
    event.preventDefault();
    event.target.form.requestSubmit();
  }
});

// One press, one answer: the key in the form makes a second one harmless, and this makes it rare.
document.addEventListener("submit", (event) => {
  const button = event.submitter;
  setTimeout(() => { if (button) button.disabled = true; }, 0);
  setTimeout(() => { if (button) button.disabled = false; }, 3000);
});

/* ---- reading to the end ---- */

// What is long is approved once its end was on the screen, however somebody got there. The box says so, and
// can be ticked without this.
const ends = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    const box = isIntersecting && target.querySelector("input");
    if (box) { box.checked = true; ends.unobserve(target); }
  }
}, { threshold: 1 });

function watchEnds(root) {
  for (const end of root.querySelectorAll("[data-read-end]")) ends.observe(end);
}

/* ---- the newest ---- */

// A long run is opened where it is now; whoever came for a place in it, or has begun to read, stays there.
const now = document.getElementById("now");
if (now && !location.hash && document.querySelector(".feed[data-long]")) now.scrollIntoView({ block: "end" });

tell();
watchEnds(document);
localise(document);
tick();
setInterval(tick, 1000);
if (main) {
  // A page that shows a refused form is not what its address shows: it is left as it is.
  const isForm = document.querySelector("[aria-invalid], [role=alert]");
  if (!isForm) {
    listen();
    document.addEventListener("visibilitychange", () => {
      if (isAsleep()) hush();
      else { listen(); refresh(); }
    });
    // Lists of runs and sessions change without a question being asked.
    if (/^\/console\/(runs|sessions)$/.test(location.pathname)) {
      setInterval(() => { if (document.visibilityState !== "hidden") refresh(); }, 4000);
    }
  }
  document.querySelector("[aria-invalid=true]")?.focus();
}
