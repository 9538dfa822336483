// Consumer groups: who reads what, and how far behind.

import { changeButton, resetOffsets } from "../change.js";
import { attribute, fill, h, keyed, say } from "../dom.js";
import { clock, count, listed, plural } from "../format.js";
import { drawSparkline, empty, pill, sparkline, title, topicLink, whyNone } from "../parts.js";
import { ask, store } from "../store.js";

const POLL_MS = 1500;
const OLD_MS = 6000; // Answers that took long are asked for rarely.
const PARTITIONS_SHOWN = 500;

export function groups(root) {
  let isOpen = true;
  let timer = null;
  let asked = 0;
  let chosen = new URLSearchParams(location.search).get("id");
  const body = h("tbody");
  const note = h("p", { class: "lead", role: "status" }, "Asking …");
  const detail = h("section", { class: "group-detail" });
  const list = h("div", { class: "frame", hidden: true }, h("table", { class: "list of-groups" }, h("caption", { class: "unseen" }, "Consumer groups"), h("thead", {}, h("tr", {},
      h("th", { scope: "col" }, "Group"), h("th", { scope: "col" }, "State"), h("th", { scope: "col" }, "Protocol"), h("th", { scope: "col", class: "number" }, "Members"), h("th", { scope: "col", class: "number" }, "Lag"), h("th", { scope: "col" }, "Lag over time"))), body));
  root.append(h("div", { class: "view-head" }, title("Consumer groups")), note, list, detail);

  async function poll() {
    const number = ++asked; // Of two questions at once, the later one counts.
    try {
      const found = await ask("/api/groups", chosen ? { id: chosen } : {});
      if (isOpen && number === asked) show(found);
    } catch (error) {
      if (isOpen && number === asked) say(note, error.message);
    }
    if (isOpen && number === asked) timer = setTimeout(poll, POLL_MS);
  }

  function show(found) {
    const by = new Map(found.groups.map((each) => [each.group, each]));
    const missing = found.unheard.length ? ` Groups of broker ${listed(found.unheard)} are missing: it does not answer.` : "";
    const old = found.at && Date.now() - found.at > OLD_MS ? ` As of ${clock(found.at, false)}.` : "";
    say(note, [`${found.groups.length ? `${plural(found.groups.length, "group")}.` : whyNone("No group reads from this cluster.")}${missing}${old}`, ...found.refused].join(" "));
    list.hidden = !by.size;
    keyed(body, [...by.keys()], (group) => groupRow(group, choose), (row, group) => row.show(by.get(group), group === chosen));
    const group = by.get(chosen);
    if (group) showDetail(detail, group);
    else if (chosen && !found.unheard.length) fill(detail, empty("This group is gone."));
  }

  function choose(group) {
    chosen = chosen === group ? null : group;
    history.replaceState(null, "", chosen ? `/group?${new URLSearchParams({ id: chosen })}` : "/groups");
    detail.keyed = undefined;
    detail.replaceChildren();
    detail.group = undefined;
    clearTimeout(timer);
    poll();
  }

  poll();
  return {
    close() {
      isOpen = false;
      clearTimeout(timer);
    },
  };
}

function groupRow(group, choose) {
  const name = h("button", { type: "button", class: "opener name", on: { click: () => choose(group) } });
  const state = h("td");
  const kind = h("td");
  const members = h("td", { class: "number" });
  const lag = h("td", { class: "number" });
  const spark = sparkline([], { width: 140, height: 22, label: "lag over time" });
  const row = h("tr", {}, h("th", { scope: "row" }, name), state, kind, members, lag, h("td", {}, spark));
  let shownState = null;
  row.show = (found, isChosen) => {
    say(name, found.name);
    attribute(name, "aria-expanded", String(isChosen));
    attribute(row, "class", isChosen ? "chosen" : null);
    if (shownState !== found.state) {
      shownState = found.state;
      fill(state, pill(found.state.toLowerCase() === "stable" ? "ok" : found.state.toLowerCase() === "empty" ? "none" : "warn", found.state));
    }
    say(kind, found.kind);
    say(members, count(found.members));
    say(lag, count(found.lag));
    drawSparkline(spark, found.history, 140, 22);
  };
  return row;
}

function showDetail(root, group) {
  // The groups may be heard of before it is known that this page may change them.
  if (root.group !== group.group || root.mayChange !== store.may.admin) {
    root.group = group.group;
    root.mayChange = store.may.admin;
    root.members = h("tbody");
    root.partitions = h("tbody");
    root.empty = h("p", { class: "rest", hidden: true }, "No member is connected.");
    root.rest = h("p", { class: "rest" });
    fill(root, h("h2", {}, group.name), h("p", { class: "changes" }, changeButton("Reset offsets", () => resetOffsets(group))),
      h("h3", {}, "Members"), h("div", { class: "frame" }, h("table", { class: "list" }, h("thead", {}, h("tr", {}, ["Member", "Client", "Host"].map((each) => h("th", { scope: "col" }, each)), h("th", { scope: "col", class: "number" }, "Partitions"))), root.members)), root.empty,
      h("h3", {}, "Partitions"), h("div", { class: "frame" }, h("table", { class: "list" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Topic"), ["Partition", "Committed", "End", "Lag"].map((each) => h("th", { scope: "col", class: "number" }, each)), h("th", { scope: "col" }, "Lag over time"), h("th", { scope: "col" }, "Read by"))), root.partitions)), root.rest);
  }
  keyed(root.members, group.who.map((_, index) => index), () => h("tr", {}, h("th", { scope: "row" }), h("td"), h("td"), h("td", { class: "number" })), (row, index) => {
    const member = group.who[index];
    const [name, client, host, partitions] = row.children;
    say(name, member.instance || member.member);
    say(client, member.client);
    say(host, member.host);
    say(partitions, count(member.partitions));
  });
  attribute(root.empty, "hidden", group.who.length ? "" : null);
  const most = Math.max(...group.partitions.map((each) => each.lag ?? 0), 1);
  const places = new Map(group.partitions.slice(0, PARTITIONS_SHOWN).map((each) => [`${each.topic}\n${each.partition}`, each]));
  keyed(root.partitions, [...places.keys()], (key) => {
    const [topic, partition] = key.split("\n");
    return h("tr", {}, h("th", { scope: "row" }, topicLink(topic)), h("td", { class: "number" }, partition), h("td", { class: "number" }), h("td", { class: "number" }), h("td", { class: "number lag" }), h("td", {}, sparkline([], { width: 110, height: 20, label: `lag of ${topic}-${partition} over time` })), h("td"));
  }, (row, key) => {
    const found = places.get(key);
    say(row.children[2], count(found.committed));
    say(row.children[3], count(found.end));
    say(row.children[4], count(found.lag));
    row.children[4].style.setProperty("--share", `${(100 * (found.lag ?? 0)) / most}%`);
    drawSparkline(row.children[5].firstChild, found.history, 110, 20);
    const member = group.who[found.member];
    say(row.children[6], member ? member.instance || member.client : "–");
  });
  say(root.rest, group.partitions.length > PARTITIONS_SHOWN ? `${count(group.partitions.length - PARTITIONS_SHOWN)} more partitions.` : "");
}
