// Parts that several views use: badges, chips, plots, what a replica is doing.

import { h, svg } from "./dom.js";
import { count } from "./format.js";
import { get } from "./store.js";

const MODE_CLASS = { isr: "isr", "primary-backup": "pb", quorum: "quorum" };

export const modeClass = (mode) => `mode-${MODE_CLASS[mode] ?? "none"}`;

/** The letter of a mode in its colour. */
export function badge(topic) {
  return h("span", { class: `badge ${modeClass(topic.mode)}`, title: topic.words || "the mode is not known yet", "aria-label": topic.words ? `mode ${topic.words}` : "mode unknown", role: "img" }, topic.letter || "·");
}

export function pill(level, text) {
  return h("span", { class: `pill ${level}` }, h("span", { class: "dot", "aria-hidden": "true" }), text);
}

export function topicLink(name) {
  return h("a", { href: `/topic/${encodeURIComponent(name)}`, class: "name", title: name.length > 60 ? name : null }, name);
}

/** Whether a broker serves anyone now. */
export function isAway(broker) {
  const seen = get(`b/${broker}`);
  return !seen || seen.state !== "up";
}

/** What a replica of a partition is doing: leader, insync, behind, away or failed. */
export function replicaState(topic, index, replica) {
  const [leader, replicas, inSync] = topic.partitions[index];
  // A primary stays one while it is down; of other modes the broker that the metadata name leads.
  const leads = leader < 0 && topic.mode === "primary-backup" ? replicas[0] : leader;
  if (isAway(replica)) return replica === leads ? "lost" : "away";
  if (replica === leader) return "leader";
  return inSync.includes(replica) ? "insync" : "behind";
}

export const isLeaderless = (partition) => partition[0] < 0 || isAway(partition[0]);

export function replicaWords(topic, index, replica) {
  const lag = get(`l/${topic.name}`)?.[index]?.[replica];
  const words = {
    leader: topic.mode === "primary-backup" ? "primary" : "leader",
    insync: "in sync",
    behind: lag ? `behind by ${count(lag)} records` : "not in sync",
    away: "on a broker that is down",
    lost: topic.mode === "primary-backup" ? "primary, but its broker is down" : "leader, but its broker is down",
  };
  return words[replicaState(topic, index, replica)];
}

/** A line of values; no axis, for a trend beside a number. */
export function sparkline(values, { width = 160, height = 32, label = "" } = {}) {
  const picture = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label });
  drawSparkline(picture, values, width, height);
  return picture;
}

export function drawSparkline(picture, values, width = 160, height = 32) {
  const most = Math.max(...values, 1);
  const step = width / Math.max(values.length - 1, 1);
  const points = values.map((value, index) => [index * step, height - 2 - (value / most) * (height - 4)]);
  if (points.length < 2) {
    picture.replaceChildren();
    return;
  }
  const line = points.map(([x, y], index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  picture.replaceChildren(
    svg("path", { class: "area", d: `${line}L${width} ${height}L0 ${height}Z` }),
    svg("path", { class: "line", d: line, "vector-effect": "non-scaling-stroke" }),
  );
}

/** A heading that receives the focus when the view changes, for screen readers. */
export function title(text, ...more) {
  return h("h1", { tabindex: "-1" }, text, ...more);
}

/** Why a list is empty: there is nothing, nothing may be seen, or no broker says so. */
export function whyNone(nothing) {
  const seen = get("cluster");
  if (!seen) return "Looking for brokers …";
  return !seen.seen ? "No broker answers." : seen.limited ? "Nothing that the page's user may see." : nothing;
}

export function empty(...words) {
  return h("p", { class: "empty" }, ...words);
}
