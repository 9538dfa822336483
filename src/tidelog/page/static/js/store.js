// The state of the cluster as the page sends it: everything once, then changes.

const HISTORY_POINTS = 120;
const EVENTS_MAX = 2000;
const PLOT_POINTS = 600;
// Without a word for so long, the connection counts as lost. The page says something every second.
const SILENT_MS = 4000;

export const store = {
  state: new Map(), // key → value; see src/tidelog/page/state.py
  events: [],
  history: [], // records per second, the newest last
  status: "connecting", // connecting, live or lost
  may: {}, // what this page may change
  playground: {}, // the newest snapshot; see src/tidelog/lab/playground/ground.py
  points: {}, // latencies of each load
};

const listeners = new Set();

/** `listener(keys)`: keys that changed; null: everything. Returns how to stop. */
export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const get = (key) => store.state.get(key);

/** All values whose keys begin so, in order. */
export function all(prefix) {
  const found = [];
  for (const [key, value] of store.state) if (key.startsWith(prefix)) found.push(value);
  return found;
}

export const brokers = () => all("b/").sort((one, other) => one.id - other.id);
export const topics = () => all("t/").sort((one, other) => (one.name < other.name ? -1 : 1));

let pending = new Set();
let everything = false;
let scheduled = false;

function notify() {
  scheduled = false;
  const keys = everything ? null : pending;
  pending = new Set();
  everything = false;
  for (const listener of [...listeners]) listener(keys);
}

function changed(key) {
  if (key === null) everything = true;
  else pending.add(key);
  if (scheduled) return;
  scheduled = true;
  // Not an animation frame: they stop in a background tab, and messages would pile up.
  setTimeout(notify, 0);
}

function take(message) {
  if (message.all) {
    store.state = new Map(Object.entries(message.all));
    store.events = message.events;
    store.history = message.history;
    store.may = message.may ?? {};
    store.playground = message.playground ?? {};
    store.points = store.playground.history ?? {};
    changed(null);
    return;
  }
  for (const [key, value] of Object.entries(message.changes ?? {})) {
    if (value === null) store.state.delete(key);
    else store.state.set(key, value);
    changed(key);
  }
  if (message.playground) {
    store.playground = message.playground;
    for (const [name, point] of Object.entries(message.playground.points)) {
      const course = (store.points[name] ??= []);
      course.push(point);
      if (course.length > PLOT_POINTS) course.shift();
    }
    changed("playground");
  }
  // One that happened while this browser connected comes twice.
  const fresh = (message.events ?? []).filter((event) => event.id > (store.events.at(-1)?.id ?? -Infinity));
  if (fresh.length) {
    store.events.push(...fresh);
    if (store.events.length > EVENTS_MAX) store.events.splice(0, store.events.length - EVENTS_MAX);
    changed("events");
  }
  if (message.past) {
    // What the metadata log says of the time before the page.
    store.events = [...message.past, ...store.events].slice(-EVENTS_MAX);
    changed("events");
  }
  if (message.point !== undefined) {
    store.history.push(message.point);
    if (store.history.length > HISTORY_POINTS) store.history.shift();
    changed("history");
  }
}

function setStatus(status) {
  if (store.status === status) return;
  store.status = status;
  changed("status");
}

let source = null;
let heardAt = 0;

export function connect() {
  source?.close();
  source = new EventSource("/events");
  heardAt = Date.now();
  source.onmessage = (event) => {
    heardAt = Date.now();
    setStatus("live");
    take(JSON.parse(event.data));
  };
  source.onerror = () => {
    setStatus("lost");
    // A browser gives up after some answers; the page may be back any moment.
    if (source?.readyState === EventSource.CLOSED) setTimeout(connect, 1000);
  };
}

// A browser has six connections for all pages of one address. A page that is left, or not looked at for a
// while, gives its own back.
const HIDDEN_MS = 10000;
let hiding = null;

function disconnect() {
  source?.close();
  source = null;
  setStatus("connecting");
}

addEventListener("pagehide", disconnect);
addEventListener("pageshow", (event) => {
  if (event.persisted) connect();
});
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(disconnect, HIDDEN_MS);
  else if (!source) connect();
});

setInterval(() => {
  if (store.status === "live" && Date.now() - heardAt > SILENT_MS) {
    setStatus("lost");
    connect();
  }
}, 1000);

/** JSON of a view, or an Error with a sentence. */
export async function ask(path, parameters = {}) {
  const query = new URLSearchParams(parameters);
  let response;
  try {
    response = await fetch(`${path}?${query}`, { headers: { accept: "application/json" } });
  } catch {
    throw new Error("The page's process does not answer.");
  }
  const found = await response.json().catch(() => ({ error: "The page's process gave no answer." }));
  if (!response.ok) throw new Error(found.error ?? "That failed.");
  return found;
}
