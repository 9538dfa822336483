// Loads on four topics, faults on brokers, and what each mode makes of them.

import { attribute, fill, h, keyed, say, svg } from "../dom.js";
import { clock, count, listed, short } from "../format.js";
import { badge, empty, pill, title } from "../parts.js";
import { get, store } from "../store.js";
import { post } from "../token.js";

const WIDTH = 1000;
const HEIGHT = 210;
const LEFT = 64;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 28;
const SPAN_MS = 120000;
const NAME_WIDTH = 90; // of the longest name of a fault, on a narrow screen
const DECADES = [1, 10, 100, 1000, 10000]; // milliseconds
const COUNTERS = [["sent", "sent"], ["acknowledged", "acknowledged"], ["lost", "lost"], ["duplicated", "duplicated"], ["disordered", "out of order"], ["given_up", "given up"]];
const WRONG = new Set(["lost", "duplicated", "disordered"]);
const STATES = { up: ["ok", "up"], killed: ["bad", "killed"], frozen: ["bad", "frozen"], "cut off": ["bad", "cut off"], restarting: ["warn", "restarts"], down: ["bad", "down"] };
const ACTIONS = {
  kill: ["Kill", "kill -9: the process ends at once"],
  freeze: ["Freeze", "SIGSTOP: connections stay open, nothing is answered"],
  thaw: ["Thaw", "SIGCONT: it runs on"],
  cut: ["Cut off", "no other broker reaches it, and it reaches none; clients still do"],
  heal: ["Heal", "the other brokers reach it again"],
  restart: ["Restart", "a clean stop and a start"],
  start: ["Start", "it continues with its data"],
};
const OFFERED = { up: ["kill", "freeze", "cut", "restart"], "cut off": ["heal", "kill"], frozen: ["thaw", "kill"], killed: ["start"], down: ["start"], restarting: [] };
// Lines of the plot, told apart by dash as well as by colour.
const LINES = { isr: ["isr", ""], asynchronous: ["pb", "7 4"], "double-write": ["pb", ""], quorum: ["quorum", ""] };

export function playground(root) {
  if (!store.may.playground && store.status === "live") {
    root.append(title("Playground"), empty("There is no playground here: it needs a cluster that ", h("code", {}, "tidelog up"), " started on this machine."));
    return {};
  }
  const said = h("p", { class: "said", role: "status", "aria-live": "polite" });
  const start = h("button", { type: "button", class: "primary", on: { click: () => send({ action: "start", load: "all" }) } }, "Start all loads");
  const stop = h("button", { type: "button", on: { click: () => send({ action: "stop", load: "all" }) } }, "Stop and check every record");
  const brokers = h("div", { class: "ground-brokers" });
  const uncut = h("p", { class: "ground-note", hidden: true });
  const loads = h("div", { class: "ground-loads" });
  const picture = svg("svg", { class: "latency", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Latency of acknowledgements in the last two minutes; the cards below have the figures" });
  const key = h("ul", { class: "legend plot-key" });
  root.append(
    h("div", { class: "view-head" }, title("Playground"), h("div", { class: "tools" }, start, stop)),
    h("p", { class: "lead" }, "Four topics, one for each way to replicate, are written to. Break a broker and watch what each of them does."),
    brokers, uncut, said,
    h("section", { class: "frame plot-frame", "aria-label": "Latency" }, h("h2", { class: "small" }, "Time until a record is acknowledged"), h("div", { class: "plot-scroll" }, picture), key),
    loads,
  );

  async function send(command) {
    say(said, { start: "Starting …", stop: "Stopping …", kill: "Killing …", cut: "Cutting off …", restart: "Restarting …" }[command.action] ?? "");
    attribute(said, "data-level", null);
    try {
      const answer = await post("/api/playground", command);
      if (answer.words) say(said, answer.words);
    } catch (error) {
      say(said, error.message);
      attribute(said, "data-level", "bad");
    }
  }

  function update(keys) {
    if (keys && !keys.has("playground") && !keys.has("status")) return;
    const now = store.playground;
    if (!now.loads) {
      // The page was started again, and its playground has not been opened yet.
      if (!keys && store.status === "live") open();
      return;
    }
    const running = now.loads.filter((each) => each.state === "running");
    start.hidden = !now.loads.length || now.loads.every((each) => ["starting", "running", "checking"].includes(each.state));
    stop.hidden = !running.length;
    if (now.why_not && !said.textContent) say(said, now.why_not);
    uncut.hidden = !now.why_no_cut;
    say(uncut, now.why_no_cut ?? "");
    keyed(brokers, Object.keys(now.brokers), makeBroker, (element, id) => element.show(now.brokers[id], !now.why_no_cut));
    keyed(loads, now.loads.map((each) => each.key), makeLoad, (element, name) => element.show(now.loads.find((each) => each.key === name)));
    keyed(key, now.loads.map((each) => each.key), (name) => h("li", {}, svg("svg", { class: "line-key", viewBox: "0 0 26 8", width: 26, height: 8, "aria-hidden": "true" }, svg("path", { class: `plot-line ${LINES[name][0]}`, "stroke-dasharray": LINES[name][1] || null, d: "M0 4H26" })), now.loads.find((each) => each.key === name).title));
    draw(picture, now, store.points);
    // The newest is at the right, which a narrow screen does not show by itself.
    if (!picture.placed) {
      picture.placed = true;
      picture.parentElement.scrollLeft = picture.parentElement.scrollWidth;
    }
  }

  function makeBroker(id) {
    const state = h("span");
    const tools = h("div", { class: "tools" });
    const note = h("small");
    const element = h("section", { class: "ground-broker", "aria-label": `Broker ${id}`, "data-broker": id }, h("div", { class: "broker-top" }, h("strong", {}, `Broker ${id}`), state), note, tools);
    element.show = (now, mayCut) => {
      const seen = get(`b/${id}`);
      const [level, text] = now === "up" && seen && seen.state !== "up" ? ["warn", "comes back"] : STATES[now] ?? ["warn", now];
      const leads = seen && seen.state === "up" ? `leads ${seen.leads} of ${seen.replicas}` : "";
      say(note, [seen?.controller === "active" ? "★ active controller" : seen?.controller ? "controller" : "", leads].filter(Boolean).join(" · "));
      const shown = `${now} ${text} ${mayCut}`;
      if (element.shown === shown) return;
      element.shown = shown;
      attribute(element, "data-now", now === "up" ? null : now);
      fill(state, pill(level, text));
      keyed(tools, (OFFERED[now] ?? []).filter((action) => action !== "cut" || mayCut), (action) => h("button", { type: "button", "data-action": action, "aria-label": `${ACTIONS[action][0]} broker ${id}`, "data-tip": ACTIONS[action][1], on: { click: () => send({ action: action === "start" ? "restart" : action, broker: Number(id) }) } }, ACTIONS[action][0]));
    };
    return element;
  }

  function makeLoad(name) {
    const head = h("h3");
    const toggle = h("button", { type: "button" });
    const words = h("p", { class: "load-words" });
    const values = {};
    const figures = h("dl", { class: "figures" });
    for (const [counter, label] of COUNTERS) {
      values[counter] = h("dd", { class: "number" });
      figures.append(h("div", { "data-counter": counter }, h("dt", {}, label), values[counter]));
    }
    const rate = h("span", { class: "load-rate" });
    const verdict = h("p", { class: "load-verdict" });
    const element = h("article", { class: "ground-load", "data-load": name }, h("div", { class: "load-top" }, head, toggle), rate, words, figures, verdict);
    element.show = (load) => {
      if (!head.firstChild) fill(head, badge({ mode: load.mode, letter: load.mode[0].toUpperCase(), words: load.mode }), " ", h("a", { href: `/topic/${encodeURIComponent(load.topic)}`, class: "name" }, load.title));
      const isRunning = load.state === "running";
      const isBusy = load.state === "starting" || load.state === "checking";
      toggle.disabled = isBusy;
      say(toggle, isRunning ? "Stop" : isBusy ? "…" : "Start");
      toggle.onclick = () => send({ action: isRunning ? "stop" : "start", load: name });
      const stalled = isRunning && load.stalled_s > 0.5;
      attribute(element, "data-level", stalled ? "bad" : null);
      const leader = load.leader >= 0 ? `broker ${load.leader} leads` : "no leader";
      say(rate, isRunning ? (stalled ? `no acknowledgement for ${load.stalled_s.toFixed(1)} s` : `${short(load.per_s)} records / s · ${leader}`) : { off: "not running", starting: "starting", checking: "reading every record back", done: "stopped", failed: "failed" }[load.state]);
      say(words, isRunning ? load.sentence : load.words);
      for (const [counter] of COUNTERS) {
        say(values[counter], count(load[counter]));
        attribute(values[counter].parentElement, "data-level", WRONG.has(counter) && load[counter] ? "bad" : null);
      }
      say(verdict, load.verdict ? verdictWords(load.verdict, load.longest_s) : load.longest_s >= 0.5 ? `The longest pause was ${load.longest_s.toFixed(1)} s.` : "");
      attribute(verdict, "data-level", load.verdict ? (load.verdict.clean ? "ok" : "bad") : null);
    };
    return element;
  }

  function open() {
    post("/api/playground", { action: "open" }).catch((error) => {
      say(said, error.message);
      attribute(said, "data-level", "bad");
    });
  }
  return { update };
}

function verdictWords(verdict, longest) {
  const pause = longest >= 0.5 ? ` The longest pause was ${longest.toFixed(1)} s.` : "";
  if (verdict.clean) return `All ${count(verdict.acknowledged)} acknowledged records are there, once and in order.${pause}`;
  const wrong = [["lost", "are lost"], ["duplicated", "are there twice"], ["disordered", "are out of order"], ["misplaced", "are at another offset"]].filter(([key]) => verdict[key]).map(([key, text]) => `${count(verdict[key])} ${text}`);
  return `Of ${count(verdict.acknowledged)} acknowledged records ${listed(wrong)}.${pause}`;
}

// --- the plot ---

function draw(picture, now, points) {
  const end = now.at;
  const begin = end - SPAN_MS;
  const x = (at) => LEFT + ((at - begin) / SPAN_MS) * (WIDTH - LEFT - RIGHT);
  const low = Math.log10(DECADES[0] / 2);
  const high = Math.log10(DECADES.at(-1) * 2);
  const y = (ms) => TOP + (1 - (Math.log10(Math.min(Math.max(ms, DECADES[0] / 2), DECADES.at(-1) * 2)) - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const parts = [];
  for (const band of now.bands) {
    const [broker, what, from, until] = band;
    const to = until < 0 ? end : until;
    if (to < begin) continue;
    const left = x(Math.max(from, begin));
    const width = Math.max(x(to) - left, 2);
    parts.push(svg("rect", { class: `band ${what}`, x: left.toFixed(1), width: width.toFixed(1), y: TOP, height: HEIGHT - TOP - BOTTOM, "data-tip": `broker ${broker} ${what}, ${((to - from) / 1000).toFixed(1)} s` }));
    // The name of a fault that has just begun is to the left of it: there is no room to the right.
    const isLate = left > WIDTH - RIGHT - NAME_WIDTH;
    parts.push(svg("text", { class: "band-name", x: (isLate ? left - 3 : left + 3).toFixed(1), y: TOP + 12 + ((broker - 1) % 3) * 13, "text-anchor": isLate ? "end" : null }, `${broker} ${what}`));
  }
  for (const ms of DECADES) {
    parts.push(svg("line", { class: "tick", x1: LEFT, x2: WIDTH - RIGHT, y1: y(ms).toFixed(1), y2: y(ms).toFixed(1) }), svg("text", { class: "tick-name", x: LEFT - 8, y: (y(ms) + 4).toFixed(1), "text-anchor": "end" }, ms < 1000 ? `${ms} ms` : `${ms / 1000} s`));
  }
  for (let step = 0; step <= 4; step += 1) {
    const at = begin + (SPAN_MS * step) / 4;
    parts.push(svg("text", { class: "tick-name", x: x(at).toFixed(1), y: HEIGHT - 8, "text-anchor": step === 4 ? "end" : step ? "middle" : "start" }, clock(at, false)));
  }
  for (const [name, course] of Object.entries(points)) parts.push(...lineOf(name, course, begin, x, y));
  picture.replaceChildren(...parts);
}

/** The median; dotted where nothing was acknowledged: how long the writes have waited. */
function lineOf(name, course, begin, x, y) {
  const [kind, dash] = LINES[name] ?? ["isr", ""];
  let line = "";
  let waits = "";
  let before = null;
  for (const [at, acknowledged, median, worst] of course) {
    if (at < begin) continue;
    const ms = acknowledged ? median : worst;
    if (ms < 0) {
      before = null;
      continue;
    }
    const here = `${x(at).toFixed(1)} ${y(ms).toFixed(1)}`;
    if (acknowledged) line += before?.acknowledged ? `L${here}` : `M${before?.here ?? here}L${here}`;
    else waits += before ? `M${before.here}L${here}` : `M${here}`;
    before = { here, acknowledged: acknowledged > 0 };
  }
  return [
    line && svg("path", { class: `plot-line ${kind}`, d: line, "stroke-dasharray": dash || null, "data-line": name }),
    waits && svg("path", { class: `plot-line waits ${kind}`, d: waits }),
  ].filter(Boolean);
}
