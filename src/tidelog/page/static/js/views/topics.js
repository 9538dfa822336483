// All topics in a table that can be searched.

import { changeButton, createTopic } from "../change.js";
import { attribute, h, keyed, say } from "../dom.js";
import { count, plural, short } from "../format.js";
import { badge, empty, title, topicLink, whyNone } from "../parts.js";
import { get, store, topics as allTopics } from "../store.js";

const SHOWN_MAX = 300;

export function topics(root) {
  const search = h("input", { type: "search", placeholder: "Find a topic", "aria-label": "Find a topic", autocomplete: "off", spellcheck: "false", on: { input: () => update(null) } });
  const internal = h("input", { type: "checkbox", on: { change: () => update(null) } });
  const changes = h("span", { class: "changes" });
  const body = h("tbody");
  const rest = h("p", { class: "rest" });
  root.append(
    h("div", { class: "view-head" }, title("Topics"), h("div", { class: "tools" }, search, h("label", { class: "check" }, internal, "internal topics"), changes)),
    h("div", { class: "frame" }, h("table", { class: "list of-topics" }, h("caption", { class: "unseen" }, "Topics"), h("thead", {}, h("tr", {},
      h("th", { scope: "col" }, "Topic"), h("th", { scope: "col" }, "Mode"), h("th", { scope: "col", class: "number" }, "Partitions"), h("th", { scope: "col", class: "number" }, "Replicas"),
      h("th", { scope: "col", class: "number" }, "Records / s"), h("th", { scope: "col" }, "Now"))), body)),
    rest,
  );

  function update() {
    if (store.may.admin && !changes.firstChild) changes.append(changeButton("Create a topic", createTopic, { class: "primary" }));
    const text = search.value.trim().toLowerCase();
    const found = allTopics().filter((topic) => (internal.checked || !topic.internal) && topic.name.toLowerCase().includes(text));
    const rates = get("rates")?.topics ?? {};
    keyed(body, found.slice(0, SHOWN_MAX).map((topic) => topic.name), makeRow, (row, name) => row.show(get(`t/${name}`), rates[name] ?? 0));
    rest.replaceChildren();
    if (!found.length) rest.append(empty(text ? "No topic has that in its name." : whyNone("There are no topics yet.")));
    else if (found.length > SHOWN_MAX) rest.append(`${count(found.length - SHOWN_MAX)} more; narrow the search to see them.`);
  }
  return { update };
}

function makeRow(name) {
  const mode = h("td");
  const partitions = h("td", { class: "number" });
  const replicas = h("td", { class: "number" });
  const rate = h("td", { class: "number" });
  const now = h("td", { class: "promise" });
  const row = h("tr", {}, h("th", { scope: "row" }, topicLink(name)), mode, partitions, replicas, rate, now);
  let words = null;
  row.show = (topic, perSecond) => {
    if (words !== topic.words) {
      words = topic.words;
      mode.replaceChildren(badge(topic), " ", topic.words);
    }
    say(partitions, count(topic.partitions.length));
    const counts = topic.partitions.map((each) => each[1].length);
    say(replicas, counts.length ? String(Math.min(...counts)) : "–");
    say(rate, perSecond > 0 ? short(perSecond) : "–");
    say(now, topic.offline ? `${plural(topic.offline, "partition")} without a leader` : topic.short);
    attribute(now, "data-level", topic.level);
  };
  return row;
}
