// Brokers as columns, topics as rows, replicas as cells.

import { changeButton, drainBroker } from "../change.js";
import { attribute, fill, h, keyed, say } from "../dom.js";
import { bytes, count, percent, plural, short } from "../format.js";
import { badge, drawSparkline, isLeaderless, modeClass, replicaState, replicaWords, sparkline, title, topicLink, whyNone } from "../parts.js";
import { brokers, get, store, topics } from "../store.js";

const DENSE_FROM = 40; // partitions of a topic; their cells are smaller and without letters
let showInternal = false;

export function cluster(root) {
  const status = h("p", { class: "status", role: "status", "aria-live": "polite" });
  const more = h("ul", { class: "status-more" });
  const figures = h("dl", { class: "figures" });
  const rate = h("dd", { class: "number" });
  const spark = sparkline([], { width: 220, height: 36, label: "records per second in the last two minutes" });
  const head = h("tr");
  const body = h("tbody");
  const internal = h("label", { class: "check" }, h("input", { type: "checkbox", checked: showInternal, on: { change: (event) => { showInternal = event.target.checked; update(null); } } }), h("span", {}, "internal topics"));
  const table = h("table", { class: "matrix" }, h("caption", { class: "unseen" }, "Replicas of each topic on each broker"), h("thead", {}, head), body);
  const facts = {};
  for (const [key, label] of [["brokers", "brokers"], ["topics", "topics"], ["partitions", "partitions"], ["under", "under-replicated"], ["offline", "offline"]]) {
    facts[key] = h("dd", { class: "number" });
    figures.append(h("div", { "data-figure": key }, h("dt", {}, label), facts[key]));
  }
  root.append(
    h("section", { class: "summary" },
      h("div", { class: "summary-words" }, title("Cluster"), status, more),
      figures,
      h("div", { class: "rate" }, h("dl", { class: "figures" }, h("div", {}, h("dt", {}, "records / s"), rate)), spark)),
    h("div", { class: "matrix-frame" }, table),
    h("div", { class: "below" }, legend(), internal),
  );

  function update(keys) {
    const seen = get("cluster");
    if (!keys || keys.has("history") || keys.has("rates")) {
      say(rate, short(get("rates")?.total ?? 0));
      drawSparkline(spark, store.history, 220, 36);
    }
    if (keys && [...keys].every((key) => key === "history" || key === "rates")) {
      updateRates();
      return;
    }
    updateStatus(seen);
    updateHead();
    updateBody(keys);
    updateRates();
  }

  function updateStatus(seen) {
    if (!seen) {
      say(status, "Looking for brokers …");
      return;
    }
    attribute(status, "data-level", seen.level);
    say(status, seen.sentences[0]);
    keyed(more, seen.sentences.slice(1), (text) => h("li", {}, text));
    const counts = seen.counts ?? { brokers: 0, up: 0, topics: 0, partitions: 0, under: 0, offline: 0, below: 0 };
    say(facts.brokers, counts.up === counts.brokers ? count(counts.brokers) : `${counts.up} of ${counts.brokers}`);
    for (const key of ["topics", "partitions", "under", "offline"]) say(facts[key], count(counts[key]));
    say(internal.lastChild, counts.internal ? `internal topics (${counts.internal})` : "internal topics");
    attribute(facts.brokers.parentElement, "data-level", counts.up < counts.brokers ? "bad" : null);
    attribute(facts.under.parentElement, "data-level", counts.under ? "warn" : null);
    attribute(facts.offline.parentElement, "data-level", counts.offline ? "bad" : null);
  }

  function updateHead() {
    const columns = brokers();
    table.style.setProperty("--brokers", columns.length);
    keyed(head, ["", ...columns.map((each) => `b/${each.id}`)], (key) => (key ? brokerHead() : h("td", { class: "corner" })), (element, key) => {
      if (key) element.show(get(key));
    });
  }

  function updateBody(keys) {
    const columns = brokers();
    // What a replica does depends on its broker.
    const again = !keys || [...keys].some((key) => key.startsWith("b/") && body.states?.get(key) !== get(key)?.state);
    body.states = new Map(columns.map((each) => [`b/${each.id}`, each.state]));
    const shown = topics().filter((topic) => showInternal || !topic.internal);
    if (!shown.length) {
      keyed(body, ["none"], () => h("tr", { class: "none" }, h("td")), (row) => {
        // As many as there are: each more would be a column that takes its share of the width.
        attribute(row.firstChild, "colspan", columns.length + 1);
        fill(row.firstChild, whyNone(["No topics yet. ", h("code", {}, "tidelog topic create orders --partitions 3"), " makes one."]));
      });
      return;
    }
    keyed(body, shown.map((topic) => topic.name), (name) => topicRow(name), (row, name) => {
      if (again || keys.has(`t/${name}`) || keys.has(`l/${name}`) || row.columns !== columns.length) row.show(get(`t/${name}`), columns);
    });
  }

  function updateRates() {
    const rates = get("rates")?.topics ?? {};
    for (const [name, row] of body.keyed ?? []) row.rate?.(rates[name] ?? 0);
  }

  return { update };
}

// --- the head of a column ---

function brokerHead() {
  const name = h("span", { class: "broker-name" });
  const state = h("span", { class: "pill" }, h("span", { class: "dot", "aria-hidden": "true" }), h("span"));
  const role = h("span", { class: "role" });
  const where = h("span", { class: "where" });
  const values = {};
  const list = h("dl", { class: "broker-figures" });
  for (const [key, label] of [["leads", "leads"], ["size", "data"], ["disk", "disk free"], ["requests", "requests / s"], ["cpu", "CPU"], ["lag", "loop lag"], ["memory", "memory"]]) {
    values[key] = h("dd", { class: "number" });
    list.append(h("div", { "data-key": key }, h("dt", {}, label), values[key]));
  }
  const element = h("th", { scope: "col", class: "broker" }, h("div", { class: "broker-top" }, name, state), h("div", { class: "broker-sub" }, role, where), list);
  element.show = (broker) => {
    if (!broker) return;
    if (store.may.admin && !element.drain) {
      element.drain = changeButton("Drain", () => drainBroker(broker.id), { "aria-label": `Drain broker ${broker.id}` });
      element.append(h("p", { class: "changes" }, element.drain));
    }
    say(name, `Broker ${broker.id}`);
    const level = broker.state === "up" ? (broker.failed ? "bad" : "ok") : broker.state === "fenced" ? "warn" : "bad";
    state.className = `pill ${level}`;
    say(state.lastChild, { up: broker.failed ? "disk fails" : "up", fenced: "fenced", silent: "down" }[broker.state]);
    attribute(state, "data-tip", broker.reason || null);
    attribute(element, "data-state", broker.state);
    say(role, broker.controller === "active" ? "★ active controller" : broker.controller ? "controller" : "");
    attribute(role, "data-role", broker.controller || null);
    say(where, [broker.address, broker.rack && `rack ${broker.rack}`].filter(Boolean).join(" · "));
    const up = broker.state !== "silent";
    say(values.leads, `${count(broker.leads)} of ${count(broker.replicas)}`);
    say(values.size, bytes(broker.bytes));
    say(values.disk, broker.disk_total > 0 ? percent(broker.disk_free, broker.disk_total) : "–");
    attribute(values.disk.parentElement, "data-level", broker.disk_total > 0 && broker.disk_free < broker.disk_total * 0.15 ? "warn" : null);
    say(values.requests, up ? short(broker.requests_s) : "–");
    say(values.cpu, up && broker.cpu >= 0 ? `${Math.round(broker.cpu * 100)} %` : "–");
    say(values.lag, up && broker.loop_lag_ms >= 0 ? `${broker.loop_lag_ms.toFixed(1)} ms` : "–");
    say(values.memory, up ? bytes(broker.memory) : "–");
    const process = broker.cpu >= 0 || broker.memory >= 0;
    for (const key of ["requests", "cpu", "lag", "memory"]) attribute(values[key].parentElement, "hidden", process ? null : "");
  };
  return element;
}

// --- a row ---

function topicRow(name) {
  const label = h("th", { scope: "row" });
  const short_ = h("span", { class: "promise" });
  const rate = h("span", { class: "row-rate number" });
  const row = h("tr", {}, label);
  const cells = new Map(); // broker → its cell
  let letter = "";
  let shownRate = 0;

  row.rate = (value) => {
    shownRate = value;
    say(rate, value > 0 ? `${short(value)}/s` : "");
  };
  row.show = (topic, columns) => {
    row.columns = columns.length;
    if (letter !== topic.letter || !label.firstChild) {
      letter = topic.letter;
      label.replaceChildren(h("div", { class: "topic-line" }, badge(topic), topicLink(name), rate), short_);
    }
    row.rate(shownRate);
    say(short_, topic.short || plural(topic.partitions.length, "partition"));
    attribute(short_, "data-level", topic.level);
    row.className = modeClass(topic.mode) + (topic.partitions.length >= DENSE_FROM ? " dense" : "");
    const lags = get(`l/${name}`) ?? {};
    keyed(row, ["", ...columns.map((each) => each.id)], (key) => (key === "" ? label : brokerCell(name, key, cells)), null);
    // Which partitions each broker has.
    const held = new Map(columns.map((each) => [each.id, []]));
    topic.partitions.forEach((partition, index) => {
      for (const replica of partition[1]) held.get(replica)?.push(index);
    });
    for (const [broker, indexes] of held) cells.get(broker)?.show(topic, indexes, lags);
  };
  return row;
}

function brokerCell(name, broker, cells) {
  const words = h("span", { class: "unseen" });
  const strip = h("div", { class: "strip", "aria-hidden": "true" });
  const element = h("td", {}, words, strip);
  element.show = (topic, indexes) => {
    const tally = { leader: 0, insync: 0, behind: 0, away: 0, lost: 0 };
    keyed(strip, indexes, () => h("i"), (cell, index) => {
      const partition = topic.partitions[index];
      const state = replicaState(topic, index, broker);
      tally[state] += 1;
      const kind = `cell ${state}${isLeaderless(partition) && state !== "lost" ? " leaderless" : ""}`;
      if (cell.className !== kind) {
        cell.className = kind;
        cell.textContent = state === "leader" ? topic.letter : state === "lost" ? "×" : "";
      }
      attribute(cell, "data-tip", `${name}-${index} on broker ${broker}: ${replicaWords(topic, index, broker)}${isLeaderless(partition) ? "; no leader" : ""}`);
    });
    say(words, indexes.length ? summary(tally) : "no replica");
  };
  cells.set(broker, element);
  return element;
}

function summary(tally) {
  const words = [["leader", "leads"], ["insync", "in sync"], ["behind", "behind"], ["away", "away"], ["lost", "led and down"]];
  return words.filter(([key]) => tally[key]).map(([key, text]) => `${tally[key]} ${text}`).join(", ");
}

function legend() {
  const cell = (kind, letter, words, mode = "mode-isr") => h("li", { class: mode }, h("i", { class: `cell ${kind}` }, letter), words);
  return h("ul", { class: "legend", "aria-label": "Legend" },
    cell("leader", "I", "leader, isr"), cell("leader", "P", "primary, primary-backup", "mode-pb"), cell("leader", "Q", "leader, quorum", "mode-quorum"),
    cell("insync", "", "in sync"), cell("behind", "", "behind"), cell("away", "", "broker down"), cell("lost", "×", "leader lost"));
}
