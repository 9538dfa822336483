// What would happen if brokers died, lost their disks or their power: the planner's answer, on the spot.

import { attribute, fill, h, keyed, say } from "../dom.js";
import { count, listed, plural } from "../format.js";
import { badge, pill, title, topicLink } from "../parts.js";
import { ask, brokers, get } from "../store.js";

const FAULTS = [["", "as now"], ["dead", "dead"], ["power_lost", "power lost"], ["disk_lost", "disk lost"], ["cut_off", "cut off"], ["slow", "slow"]];
const REFRESH_MS = 1000;

export function whatIf(root) {
  const chosen = new Map(); // broker → fault
  let asked = 0;
  let isOpen = true;
  const panel = h("div", { class: "fault-brokers" });
  const racks = h("div", { class: "tools racks" });
  const summary = h("p", { class: "status", role: "status", "aria-live": "polite" });
  const body = h("tbody");
  const unknown = h("p", { class: "rest" });
  const worst = h("div", { class: "worst" });
  const reset = h("button", { type: "button", on: { click: () => { chosen.clear(); sync(); } } }, "No faults");
  root.append(
    h("div", { class: "view-head" }, title("What if"), h("div", { class: "tools" }, reset)),
    h("p", { class: "lead" }, "Choose faults and see what every topic would promise. Nothing happens to the cluster. What is wrong already counts."),
    panel, racks, summary,
    h("div", { class: "frame" }, h("table", { class: "list what-if" }, h("caption", { class: "unseen" }, "What the faults would do to each topic"), h("thead", {}, h("tr", {}, ["Topic", "Writes", "Reads", "Acknowledged records"].map((each) => h("th", { scope: "col" }, each)))), body)),
    unknown, worst);

  function update(keys) {
    if (keys && ![...keys].some((key) => key.startsWith("b/"))) return;
    keyed(panel, brokers().map((each) => each.id), makeBroker, (element, id) => element.show(get(`b/${id}`), chosen.get(id) ?? ""));
    const names = [...new Set(brokers().map((each) => each.rack).filter(Boolean))];
    keyed(racks, names, (rack) => h("button", { type: "button", on: { click: () => { for (const each of brokers()) if (each.rack === rack) chosen.set(each.id, "power_lost"); sync(); } } }, `Rack ${rack} loses power`));
    if (!keys) load();
  }

  function makeBroker(id) {
    const name = h("strong", {}, `Broker ${id}`);
    const note = h("small");
    const select = h("select", { "aria-label": `Fault of broker ${id}`, on: { change: () => { set(id, select.value); } } }, FAULTS.map(([value, text]) => h("option", { value }, text)));
    const toggle = h("button", { type: "button", class: "kill", on: { click: () => set(id, chosen.get(id) ? "" : "dead") } }, h("span", { class: "dot", "aria-hidden": "true" }), name, note);
    const element = h("div", { class: "fault-broker" }, toggle, select);
    element.show = (broker, fault) => {
      attribute(element, "data-fault", fault || null);
      attribute(element, "data-now", broker.state === "up" ? null : broker.state);
      attribute(toggle, "aria-pressed", String(Boolean(fault)));
      if (select.value !== fault) select.value = fault;
      const now = { up: "", fenced: "fenced now", silent: "down now" }[broker.state];
      say(note, [broker.controller ? "controller" : "", broker.rack && `rack ${broker.rack}`, now].filter(Boolean).join(" · "));
    };
    return element;
  }

  function set(id, fault) {
    if (fault) chosen.set(id, fault);
    else chosen.delete(id);
    sync();
  }

  function sync() {
    update(new Set(["b/"]));
    load();
  }

  async function load() {
    const number = ++asked;
    const query = {};
    for (const [id, fault] of chosen) query[fault] = query[fault] ? `${query[fault]},${id}` : String(id);
    try {
      const found = await ask("/api/what-if", query);
      if (isOpen && number === asked) show(found);
    } catch (error) {
      if (isOpen && number === asked) say(summary, error.message);
    }
  }

  function show(found) {
    say(summary, chosen.size || found.topics.some((each) => each.writes_stopped) ? found.summary : "Nothing fails. Choose a fault.");
    const stops = found.topics.some((each) => each.writes_stop || each.reads_stop || each.may_lose);
    const stopped = found.topics.some((each) => each.writes_stopped || each.reads_stopped);
    attribute(summary, "data-level", stops ? "bad" : stopped ? "warn" : "ok");
    const by = new Map(found.topics.map((each) => [each.name, each]));
    keyed(body, [...by.keys()], (name) => h("tr", {}, h("th", { scope: "row" }, h("span", { class: "slot" }), topicLink(name)), h("td"), h("td"), h("td")), (row, name) => {
      const each = by.get(name);
      const topic = get(`t/${name}`);
      if (topic && row.letter !== topic.letter) {
        row.letter = topic.letter;
        fill(row.firstChild.firstChild, badge(topic));
      }
      verdict(row.children[1], each.writes_stop, each.writes_stopped, each.partitions);
      verdict(row.children[2], each.reads_stop, each.reads_stopped, each.partitions);
      showOnce(row.children[3], each.may_lose ? ["bad", `may be lost${of(each.may_lose, each.partitions)}: ${each.losses.join("; ")}`] : ["ok", "kept"]);
    });
    say(unknown, found.unknown ? `${plural(found.unknown, "topic")} whose settings are not known ${found.unknown === 1 ? "is" : "are"} not counted.` : "");
    fill(worst, worstOf("The worst single death", found.worst_single), worstOf("The worst pair of deaths", found.worst_pair));
  }

  function worstOf(heading, found) {
    if (!found || !found.brokers.length) return null;
    const harmless = !found.writes && !found.reads;
    return h("section", { class: "worst-card" }, h("h2", {}, heading),
      h("p", {}, harmless ? "None stops anything." : `Brokers ${listed(found.brokers)}: writes stop in ${plural(found.writes, "partition")}, reads in ${plural(found.reads, "partition")}.`.replace(/^Brokers (\d+):/, "Broker $1:")),
      harmless ? null : h("button", { type: "button", on: { click: () => { chosen.clear(); for (const id of found.brokers) chosen.set(id, "dead"); sync(); window.scrollTo(0, 0); } } }, "Try it"));
  }

  const timer = setInterval(load, REFRESH_MS * 3);
  return {
    update,
    close() {
      isOpen = false;
      clearInterval(timer);
    },
  };
}

const of = (part, whole) => (part === whole ? "" : ` in ${count(part)} of ${count(whole)}`);

function verdict(cell, stop, stopped, whole) {
  if (stop) showOnce(cell, ["bad", `stop${of(stop, whole)}`]);
  else if (stopped) showOnce(cell, ["bad", `stopped already${of(stopped, whole)}`]);
  else showOnce(cell, ["ok", "go on"]);
}

/** A pill that is made again only when it differs. */
function showOnce(cell, [level, text]) {
  if (cell.shown === level + text) return;
  cell.shown = level + text;
  fill(cell, pill(level, text));
}
