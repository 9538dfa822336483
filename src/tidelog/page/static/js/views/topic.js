// One topic: what it promises now, its partitions, messages, settings, producers.

import { alterTopic, changeButton, deleteTopic, movePartition, promoteReplica } from "../change.js";
import { attribute, fill, h, keyed, say } from "../dom.js";
import { bytes, count, dateAndClock, plural, short } from "../format.js";
import { badge, drawSparkline, empty, isLeaderless, modeClass, pill, replicaState, replicaWords, sparkline, title, whyNone } from "../parts.js";
import { ask, get, store } from "../store.js";
import { messages } from "./messages.js";

const POLL_MS = 1000;
const MORE_MS = 5000;
const PARTITIONS_SHOWN = 200;
const TABS = [["partitions", "Partitions"], ["messages", "Messages"], ["settings", "Settings"], ["producers", "Producers"]];

export function topic(root, [name]) {
  let details = { ends: {}, sizes: {}, begins: {}, settings: null, producers: null, history: [] };
  let tab = location.hash.slice(1);
  if (!TABS.some(([key]) => key === tab)) tab = "partitions";
  let panel = null;
  let showAll = false;
  let isOpen = true;

  const head = h("div", { class: "topic-head" });
  const level = h("span");
  const sentences = h("ul", { class: "promise-list" });
  const rate = h("dd", { class: "number" });
  const figures = { rate, records: h("dd", { class: "number" }), size: h("dd", { class: "number" }), partitions: h("dd", { class: "number" }) };
  const spark = sparkline([], { width: 220, height: 40, label: "records per second in the last two minutes" });
  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Parts of the topic" });
  const content = h("div", { class: "panel", role: "tabpanel", id: "panel", tabindex: "0" });

  for (const [key, label] of TABS) {
    tabs.append(h("button", { type: "button", role: "tab", id: `tab-${key}`, "aria-controls": "panel", on: { click: () => choose(key) } }, label));
  }
  tabs.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = TABS.findIndex(([key]) => key === tab);
    choose(TABS[(at + step + TABS.length) % TABS.length][0]);
    tabs.querySelector("[aria-selected=true]").focus();
  });

  const card = h("section", { class: "promise-card", "aria-label": "What this topic promises now" }, h("div", { class: "promise-words" }, h("h2", {}, "What it promises now", level), sentences),
      h("div", { class: "topic-figures" }, h("dl", { class: "figures" },
        h("div", {}, h("dt", {}, "records / s"), rate), h("div", {}, h("dt", {}, "records"), figures.records), h("div", {}, h("dt", {}, "data, all replicas"), figures.size), h("div", {}, h("dt", {}, "partitions"), figures.partitions)), spark));
  root.append(head, card, tabs, content);

  function choose(key) {
    tab = key;
    history.replaceState(null, "", `#${key}`);
    open();
  }

  function open() {
    panel?.close?.();
    panel = null;
    for (const [key] of TABS) {
      const button = tabs.querySelector(`#tab-${key}`);
      button.setAttribute("aria-selected", String(key === tab));
      button.setAttribute("tabindex", key === tab ? "0" : "-1");
    }
    content.setAttribute("aria-labelledby", `tab-${tab}`);
    content.replaceChildren();
    const seen = get(`t/${name}`);
    if (tab === "messages" && seen) panel = messages(content, seen);
    if (tab === "partitions") panel = partitionTable(content, name, () => details, () => showAll, () => { showAll = true; panel.update(); });
    if (tab === "settings") panel = settingsTable(content, () => details.settings);
    if (tab === "producers") panel = producerTable(content, () => details.producers);
    panel?.update?.();
    poll(true);
  }

  function update(keys) {
    const seen = get(`t/${name}`);
    for (const each of [card, tabs, content]) each.hidden = !seen && Boolean(get("cluster"));
    if (!seen) {
      head.words = null; // Another one of the same name may come.
      fill(head, h("a", { href: "/topics", class: "back" }, "Topics"), title(name), get("cluster") ? pill("bad", whyNone("There is no such topic.")) : null);
      return;
    }
    if (!keys || keys.has(`t/${name}`)) {
      if (head.words !== seen.words + seen.letter + store.may.admin) {
        head.words = seen.words + seen.letter + store.may.admin;
        head.className = `topic-head ${modeClass(seen.mode)}`;
        fill(head, h("a", { href: "/topics", class: "back" }, "Topics"), h("div", { class: "topic-title" }, badge(seen), title(name), h("span", { class: "mode-words" }, seen.words),
          store.may.admin ? h("span", { class: "tools changes" }, changeButton("Change", () => alterTopic(get(`t/${name}`))), changeButton("Delete", () => deleteTopic(name))) : null));
      }
      fill(level, seen.mode ? pill(seen.level, { ok: "as configured", warn: "weakened", bad: "stopped" }[seen.level]) : pill("none", "not known: its settings are not told"));
      keyed(sentences, seen.promise, (text) => h("li", {}, text));
      say(figures.partitions, count(seen.partitions.length));
      if (!content.firstChild) open();
    }
    if (!keys || keys.has("rates")) say(rate, short(get("rates")?.topics[name] ?? 0));
    // A cell depends on its broker as well.
    if (tab === "partitions" && (!keys || [...keys].some((key) => key === `t/${name}` || key === `l/${name}` || key.startsWith("b/")))) panel?.update?.();
    if (tab === "messages" && keys?.has(`t/${name}`)) panel?.topicChanged?.(seen);
  }

  let polled = 0;
  async function poll(more) {
    const number = ++polled;
    try {
      const found = await ask("/api/topic", more ? { name, more: 1 } : { name });
      if (!isOpen || number !== polled) return;
      details = { ...details, ...found };
      attribute(content, "data-stale", null);
    } catch {
      attribute(content, "data-stale", "");
      return;
    }
    drawSparkline(spark, details.history, 220, 40);
    const ends = Object.entries(details.ends);
    say(figures.records, count(ends.reduce((sum, [index, end]) => sum + end - (details.begins[index] ?? 0), 0)));
    say(figures.size, Object.keys(details.sizes).length === 0 ? "–" : bytes(Object.values(details.sizes).flatMap((each) => Object.values(each)).reduce((sum, each) => sum + each, 0)));
    if (tab !== "messages") panel?.update?.();
  }
  let ticks = 0;
  const timer = setInterval(() => {
    ticks += 1;
    if (get(`t/${name}`)) poll(ticks % (MORE_MS / POLL_MS) === 0 && tab !== "messages");
  }, POLL_MS);

  return {
    update,
    close() {
      isOpen = false;
      clearInterval(timer);
      panel?.close?.();
    },
  };
}

// --- partitions ---

function partitionTable(root, name, details, isAll, all) {
  const body = h("tbody");
  const rest = h("p", { class: "rest" });
  root.append(h("div", { class: "frame" }, h("table", { class: "list partitions" }, h("caption", { class: "unseen" }, "Partitions"), h("thead", {}, h("tr", {},
    h("th", { scope: "col", class: "number" }, "#"), h("th", { scope: "col" }, "Leader"), h("th", { scope: "col" }, "Replicas"), h("th", { scope: "col", class: "number" }, "Begins"), h("th", { scope: "col", class: "number" }, "Ends"),
    h("th", { scope: "col", class: "number" }, "Size"), store.may.admin ? h("th", { scope: "col" }, h("span", { class: "unseen" }, "Changes")) : null)), body)), rest);

  function update() {
    const seen = get(`t/${name}`);
    if (!seen) return;
    const { begins, ends, sizes } = details();
    const shown = isAll() ? seen.partitions.length : Math.min(seen.partitions.length, PARTITIONS_SHOWN);
    const mode = modeClass(seen.mode);
    keyed(body, [...Array(shown).keys()], partitionRow, (row, index) => row.show(seen, index, mode, begins?.[index], ends[index], sizes[index]));
    if (shown === seen.partitions.length) rest.replaceChildren();
    else if (!rest.firstChild) rest.append(h("button", { type: "button", on: { click: () => { rest.replaceChildren(); all(); } } }, `Show all ${count(seen.partitions.length)} partitions`));
  }
  return { update };
}

function partitionRow(index) {
  const leader = h("td");
  const replicas = h("div", { class: "chips" });
  const begins = h("td", { class: "number" });
  const ends = h("td", { class: "number moving" });
  const size = h("td", { class: "number" });
  let shown = null;
  const tools = store.may.admin ? h("td", {}, h("span", { class: "tools" }, changeButton("Move", () => movePartition(shown, index), { "aria-label": `Move partition ${index}` }), changeButton("Lead", () => promoteReplica(shown, index), { "aria-label": `Another leader for partition ${index}` }))) : null;
  const row = h("tr", {}, h("th", { scope: "row", class: "number" }, String(index)), leader, h("td", {}, replicas), begins, ends, size, tools);
  row.show = (topic, at, mode, begin, end, sizes) => {
    shown = topic;
    const partition = topic.partitions[at];
    row.className = `${mode}${isLeaderless(partition) ? " leaderless" : ""}`;
    say(leader, partition[0] < 0 ? (topic.mode === "primary-backup" ? `broker ${partition[1][0]}, which is down` : "none") : isLeaderless(partition) ? `broker ${partition[0]}, which is down` : `broker ${partition[0]}`);
    keyed(replicas, partition[1], (replica) => h("span", { class: "chip" }, h("i"), h("span", {}, String(replica)), h("small")), (chip, replica) => {
      const state = replicaState(topic, at, replica);
      chip.firstChild.className = `cell ${state}`;
      say(chip.firstChild, state === "leader" ? topic.letter : state === "lost" ? "×" : "");
      const words = replicaWords(topic, at, replica);
      say(chip.lastChild, state === "behind" ? words : "");
      attribute(chip, "data-tip", `broker ${replica}: ${words}`);
      attribute(chip, "aria-label", `broker ${replica}: ${words}`);
      attribute(chip, "role", "img");
    });
    say(begins, begin === undefined ? "–" : count(begin));
    say(ends, end === undefined ? "–" : count(end));
    say(size, sizes ? bytes(Math.max(...Object.values(sizes))) : "–");
  };
  return row;
}

// --- settings ---

function settingsTable(root, settings) {
  let shown = null;
  return {
    update() {
      const found = settings();
      if (!found) {
        if (!root.firstChild) root.append(empty("Asking …"));
        return;
      }
      const key = JSON.stringify(found);
      if (shown === key) return;
      shown = key;
      if (typeof found === "string") {
        fill(root, empty(found));
        return;
      }
      const own = found.filter((each) => each.set);
      const rest = found.filter((each) => !each.set);
      fill(root, own.length ? settingList("Set", own) : null, settingList(own.length ? "Defaults" : "Everything has its default", rest));
    },
  };
}

function settingList(heading, rows) {
  return h("section", {}, h("h2", { class: "small" }, heading), h("div", { class: "frame" }, h("table", { class: "list settings" }, h("caption", { class: "unseen" }, heading), h("thead", { class: "unseen" }, h("tr", {}, h("th", { scope: "col" }, "Setting"), h("th", { scope: "col" }, "Value"), h("th", { scope: "col" }, "Meaning"))), h("tbody", {}, rows.map((each) =>
    h("tr", {}, h("th", { scope: "row" }, h("code", {}, each.name)),
      h("td", {}, h("code", { class: "value" }, each.value === null || each.value === "" ? "not set" : each.value), each.set ? h("small", {}, `by ${each.source}${each.default === null || each.default === each.value ? "" : `; default ${each.default}`}`) : null),
      h("td", { class: "meaning" }, withCode(each.meaning), each.value === null && each.unset ? [" Not set: ", withCode(each.unset)] : ""))))))); 
}

/** Words between backticks are code. */
function withCode(text) {
  return text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));
}

// --- producers ---

function producerTable(root, producers) {
  let shown = null;
  return {
    update() {
      const found = producers();
      if (!found) {
        if (!root.firstChild) root.append(empty("Asking …"));
        return;
      }
      const key = JSON.stringify(found);
      if (shown === key) return;
      shown = key;
      if (!found.length) {
        fill(root, empty("No idempotent or transactional producer has written lately."));
        return;
      }
      const open = found.filter((each) => each.open_from >= 0).length;
      fill(root, h("p", { class: "lead" }, open ? `${plural(open, "open transaction")}: readers of committed records wait for its end.` : "No transaction is open."),
        h("div", { class: "frame" }, h("table", { class: "list" }, h("thead", {}, h("tr", {}, ["Producer", "Epoch", "Partition", "Last sequence", "Last write", "Transaction"].map((each, index) => h("th", { scope: "col", class: index < 4 ? "number" : null }, each)))),
          h("tbody", {}, found.map((each) => h("tr", {}, h("th", { scope: "row", class: "number" }, String(each.producer)), h("td", { class: "number" }, String(each.epoch)), h("td", { class: "number" }, String(each.partition)), h("td", { class: "number" }, count(each.sequence)), h("td", {}, dateAndClock(each.at)), h("td", {}, each.open_from >= 0 ? pill("warn", `open since offset ${count(each.open_from)}`) : "–")))))));
    },
  };
}
