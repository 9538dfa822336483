// What happened, and why: what the page saw, and what the metadata log says of the time before.

import { attribute, fill, h, keyed, say, svg } from "../dom.js";
import { clock, milliseconds, plural } from "../format.js";
import { empty, title, whyNone } from "../parts.js";
import { brokers, get, store, topics } from "../store.js";

const LANES = [["broker", "brokers"], ["controller", "controllers"], ["leader", "leaders"], ["sync", "in-sync sets"], ["topic", "topics"]];
const LANE_OF = { broker: "broker", controller: "controller", leader: "leader", unclean: "leader", sync: "sync", topic: "topic", mode: "topic", setting: "topic" };
const SPANS = [[60, "1 min"], [300, "5 min"], [1800, "30 min"], [0, "all"]];
// Each gives the next part of the time, from the present one.
const STEPS = [
  ["Earlier", "◀", ({ begin, end }) => ({ begin: begin - (end - begin) / 2, end: end - (end - begin) / 2 })],
  ["Later", "▶", ({ begin, end }) => ({ begin: begin + (end - begin) / 2, end: end + (end - begin) / 2 })],
  ["Zoom in", "+", ({ begin, end }) => ({ begin: begin + (end - begin) / 4, end: end - (end - begin) / 4 })],
  ["Zoom out", "−", ({ begin, end }) => ({ begin: begin - (end - begin) / 2, end: end + (end - begin) / 2 })],
];
const LANE = 30;
const LEFT = 92;
const RIGHT = 8;
const NARROW = 600; // pixels: below, only the begin and the end of the time are named
const SHOWN_MAX = 300;
const LEAST_MS = 200; // what a zoomed picture spans at least
let spanS = 300;
let part = null; // { begin, end } in ms while a part is looked at; null: up to now

export function timeline(root) {
  const topic = h("select", { "aria-label": "Topic", on: { change: () => update(null) } }, h("option", { value: "" }, "all topics"));
  const broker = h("select", { "aria-label": "Broker", on: { change: () => update(null) } }, h("option", { value: "" }, "all brokers"));
  const spans = h("div", { class: "segments", role: "group", "aria-label": "Span" }, SPANS.map(([seconds, text]) => h("button", { type: "button", "aria-pressed": String(seconds === spanS), on: { click: () => { spanS = seconds; part = null; update(null); } } }, text)));
  const steps = h("div", { class: "segments", role: "group", "aria-label": "Zoom" }, STEPS.map(([name, text, step]) => h("button", { type: "button", title: name, "aria-label": name, on: { click: () => look(step) } }, text)));
  const picture = svg("svg", { class: "lanes", role: "img", "aria-label": "Events by kind over time; the list below has the same" });
  const list = h("ol", { class: "events", reversed: true });
  const failover = h("section", { class: "failover", "aria-label": "The last failover" });
  const rest = h("p", { class: "rest" });
  root.append(h("div", { class: "view-head" }, title("Time line"), h("div", { class: "tools" }, topic, broker, steps, spans)), failover, h("div", { class: "frame lanes-frame" }, picture), list, rest);

  function update(keys) {
    if (keys && !keys.has("events") && !keys.has("failover") && !keys.has("history")) return;
    if (!keys || keys.has("failover")) showFailover(failover);
    options();
    [...spans.children].forEach((button, index) => button.setAttribute("aria-pressed", String(!part && SPANS[index][0] === spanS)));
    const found = chosen();
    const { begin, end } = shownTime(found);
    const within = found.filter((event) => event.at >= begin && event.at <= end);
    draw(picture, within, begin, end);
    if (keys && !keys.has("events")) return;
    const shown = within.slice(-SHOWN_MAX).reverse();
    keyed(list, shown.map((event) => event.id), (id) => eventRow(shown.find((event) => event.id === id)));
    rest.replaceChildren();
    if (!within.length) rest.append(empty(store.events.length ? "Nothing happened in this span." : whyNone("Nothing has happened yet. Events appear here as they happen.")));
    else if (within.length > SHOWN_MAX) rest.append(`${within.length - SHOWN_MAX} older events are not listed.`);
  }

  function chosen() {
    return store.events.filter((event) => (!topic.value || event.topic === topic.value) && (!broker.value || event.brokers.includes(Number(broker.value))));
  }

  /** What is shown; up to now, unless a part is looked at. */
  function shownTime(found) {
    if (part) return part;
    const now = Date.now();
    return { begin: spanS ? now - spanS * 1000 : Math.min(found[0]?.at ?? now - 60000, now - 1000), end: now };
  }

  function look(step) {
    const next = step(shownTime(chosen()));
    const now = Date.now();
    if (next.end - next.begin < LEAST_MS) return;
    // The future is empty: what reaches it follows the time again.
    part = next.end > now ? { begin: Math.min(next.begin, now - LEAST_MS), end: now } : next;
    update(null);
  }

  // A drag over the picture shows the part that it covers.
  let from = null;
  const mark = svg("rect", { class: "chosen", y: 0, height: LANES.length * LANE });
  const timeAt = (event) => {
    const box = picture.getBoundingClientRect();
    const share = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
    const { begin, end } = shownTime(chosen());
    return begin + Math.min(Math.max(share, 0), 1) * (end - begin);
  };
  picture.addEventListener("pointerdown", (event) => {
    from = { at: timeAt(event), x: event.clientX };
    picture.setPointerCapture(event.pointerId);
  });
  picture.addEventListener("pointermove", (event) => {
    if (!from) return;
    const box = picture.getBoundingClientRect();
    const [left, right] = [from.x, event.clientX].sort((one, other) => one - other).map((each) => each - box.left);
    attribute(mark, "x", left.toFixed(1));
    attribute(mark, "width", (right - left).toFixed(1));
    picture.append(mark);
  });
  picture.addEventListener("pointerup", (event) => {
    if (!from) return;
    const [begin, end] = [from.at, timeAt(event)].sort((one, other) => one - other);
    const isDrag = Math.abs(event.clientX - from.x) > 8;
    from = null;
    mark.remove();
    if (isDrag) look(() => ({ begin, end }));
  });
  picture.addEventListener("pointercancel", () => { from = null; mark.remove(); });

  function options() {
    for (const [select, values, word] of [[topic, topics().map((each) => each.name), (value) => value], [broker, brokers().map((each) => String(each.id)), (value) => `broker ${value}`]]) {
      const there = new Set([...select.options].map((each) => each.value));
      for (const value of values) if (!there.has(value)) select.append(h("option", { value }, word(value)));
    }
  }
  return { update };
}

function eventRow(event) {
  return h("li", { "data-level": event.level, "data-kind": event.kind }, h("time", { datetime: new Date(event.at).toISOString() }, when(event.at)), h("span", { class: "mark", "aria-hidden": "true" }), h("span", { class: "event-text" }, event.text));
}

const isToday = (at) => new Date(at).toDateString() === new Date().toDateString();

/** With the day, unless it is today. */
const when = (at) => (isToday(at) ? clock(at) : `${new Date(at).toLocaleDateString("en-CA")} ${clock(at, false)}`);

/** With milliseconds if the picture spans a few seconds, with the day if it spans some. */
const axis = (at, spanMs) => (spanMs > 86400000 ? new Date(at).toLocaleDateString("en-CA") : clock(at, spanMs < 8000));

/** In pixels of the screen: on a narrow one, the newest would be out of sight or the words too small. */
function draw(picture, events, begin, end) {
  const width = Math.max(picture.getBoundingClientRect().width, 2 * LEFT);
  const bottom = LANES.length * LANE;
  attribute(picture, "viewBox", `0 0 ${width.toFixed(0)} ${bottom + 22}`);
  const x = (at) => LEFT + ((at - begin) / (end - begin)) * (width - LEFT - RIGHT);
  const steps = width < NARROW ? 1 : 4;
  const parts = [];
  LANES.forEach(([, label], index) => {
    const y = index * LANE + LANE / 2;
    parts.push(svg("text", { x: 0, y: y + 4, class: "lane-name" }, label), svg("line", { x1: LEFT, x2: width - RIGHT, y1: y, y2: y, class: "lane" }));
  });
  for (let step = 0; step <= steps; step += 1) {
    const at = begin + ((end - begin) * step) / steps;
    parts.push(svg("line", { x1: x(at), x2: x(at), y1: 4, y2: bottom, class: "tick" }), svg("text", { x: x(at), y: bottom + 16, class: "tick-name", "text-anchor": step === steps ? "end" : step ? "middle" : "start" }, axis(at, end - begin)));
  }
  for (const event of events.slice(-600)) {
    const index = LANES.findIndex(([kind]) => kind === LANE_OF[event.kind]);
    parts.push(svg("circle", { cx: x(event.at).toFixed(1), cy: index * LANE + LANE / 2, r: 4.5, class: `event ${event.level}`, "data-tip": `${when(event.at)} ${event.text}` }));
  }
  picture.replaceChildren(...parts);
}

// --- the last failover ---

function showFailover(root) {
  const last = get("failover");
  if (!last) {
    root.replaceChildren();
    return;
  }
  const stages = [["noticed", 0, `broker ${last.broker} stopped answering`]];
  if (last.decided_ms >= 0) stages.push(["decided", last.decided_ms, "the first partition has another leader"]);
  if (last.complete_ms >= 0) stages.push(["applied", last.complete_ms, `${last.moved} of ${last.led} partitions have another leader`]);
  if (last.written_ms >= 0) stages.push(["first write", last.written_ms, "a new leader commits records"]);
  const most = Math.max(...stages.map((each) => each[1]), 100);
  fill(root,
    h("h2", {}, "The last failover", h("small", {}, ` ${clock(last.at)} · broker ${last.broker} led ${plural(last.led, "partition")}, ${last.moved} moved`)),
    h("ol", { class: "stages" }, stages.map(([name, at, words], index) => {
      const element = h("li", {}, h("span", { class: "stage-name" }, name), h("span", { class: "stage-track", "aria-hidden": "true" }, h("i")), h("span", { class: "stage-at number" }, index ? `+${milliseconds(at)}` : "0 ms"), h("span", { class: "stage-words" }, words));
      element.style.setProperty("--at", `${(100 * at) / most}%`);
      return element;
    })),
    h("p", { class: "fine" }, "As the page saw it, which asks every 50 ms after a broker stopped answering."));
}
