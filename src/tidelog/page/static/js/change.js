// A change in two steps: what would happen, then doing it. Only on a page with --admin.

import { fill, h } from "./dom.js";
import { count } from "./format.js";
import { store } from "./store.js";
import { post } from "./token.js";

/** A button that opens a change; null where nothing may be changed. */
export function changeButton(text, make, more = {}) {
  if (!store.may.admin) return null;
  return h("button", { type: "button", ...more, on: { click: () => openChange(make()) } }, text);
}

/**
 * `fields`: [name, label, {value, kind, options, hint}]; `body`: values of the fields → what is sent.
 * Kinds: text, number, lines, choice.
 */
export function openChange({ title, lead, fields = [], body, verb, done }) {
  const inputs = new Map();
  const rows = fields.map(([name, label, more = {}]) => {
    const input = inputOf(more);
    input.id = `field-${name}`;
    input.addEventListener("input", stale);
    inputs.set(name, input);
    return h("div", { class: "field" }, h("label", { for: input.id }, label), input, more.hint ? h("small", {}, more.hint) : null);
  });
  const words = h("div", { class: "preview", "aria-live": "polite" });
  const look = h("button", { type: "submit", class: "look" }, "Preview");
  const agree = h("input", { type: "checkbox", on: { change: allow } });
  const agreed = h("label", { class: "check agree", hidden: true }, agree, "I have read this and want it.");
  const apply = h("button", { type: "button", class: "primary apply", disabled: true, on: { click: doIt } }, verb);
  const close = h("button", { type: "button", on: { click: () => dialog.close() } }, "Close");
  const form = h("form", { on: { submit: preview } }, h("h2", {}, title), lead ? h("p", { class: "lead" }, lead) : null, rows, words, agreed, h("div", { class: "tools dialog-tools" }, look, apply, close));
  const dialog = h("dialog", { class: "change", "aria-label": title, on: { close: () => dialog.remove() } }, form);
  let previewed = null;
  document.body.append(dialog);
  dialog.showModal();
  if (!fields.length) preview();

  function values() {
    return body(Object.fromEntries([...inputs].map(([name, input]) => [name, input.value])));
  }

  function stale() {
    previewed = null;
    agreed.hidden = true;
    agree.checked = false;
    apply.disabled = true;
  }

  function allow() {
    apply.disabled = !previewed || (!agreed.hidden && !agree.checked);
  }

  function fail(error) {
    fill(words, h("p", { class: "refused" }, error.message));
  }

  async function preview(event) {
    event?.preventDefault();
    stale();
    try {
      const wish = values();
      const found = await post("/api/change/preview", wish);
      previewed = wish;
      fill(words, h("p", {}, found.words), comparison(found), table(found), weaker(found));
      agreed.hidden = !found.weaker.length;
      allow();
      if (!apply.disabled) apply.focus();
    } catch (error) {
      fail(error);
    }
  }

  async function doIt() {
    apply.disabled = true;
    try {
      const found = await post("/api/change/apply", previewed);
      fill(words, h("p", { class: "done" }, found.words));
      agreed.hidden = true;
      look.hidden = true;
      apply.hidden = true;
      close.focus();
      done?.();
    } catch (error) {
      fail(error);
    }
  }
}

function inputOf({ value = "", kind = "text", options = [], most }) {
  if (kind === "choice") {
    const list = h("select", {}, options.map(([each, text]) => h("option", { value: each }, text)));
    list.value = value;
    return list;
  }
  if (kind === "lines") {
    const area = h("textarea", { rows: 4, spellcheck: "false" });
    area.value = value;
    return area;
  }
  return h("input", { type: kind, value, autocomplete: "off", spellcheck: "false", min: kind === "number" ? 0 : null, max: most });
}

function comparison({ before, after }) {
  if (!before.length && !after.length) return null;
  const side = (name, sentences, others) => h("div", {}, h("h3", {}, name), h("ul", { class: "promise-list" }, sentences.map((text) => h("li", { class: others.length && !others.includes(text) ? "differs" : null }, text))));
  return h("div", { class: "compared" }, before.length ? side("It promises now", before, after) : null, after.length ? side("It would promise", after, before) : null);
}

function weaker(found) {
  if (!found.weaker.length) return null;
  return h("div", { class: "weaker", role: "alert" }, h("strong", {}, "What is worse then:"), h("ul", {}, found.weaker.map((text) => h("li", {}, text))));
}

const ROWS_SHOWN = 100;

function table({ columns, rows }) {
  if (!rows.length) return null;
  return [
    h("div", { class: "frame preview-rows" }, h("table", { class: "list" }, h("thead", {}, h("tr", {}, columns.map((name, index) => h("th", { scope: "col", class: index ? "number" : null }, name)))),
      h("tbody", {}, rows.slice(0, ROWS_SHOWN).map((row) => h("tr", {}, row.map((value, index) => h(index ? "td" : "th", { class: index ? "number" : null }, value === null ? "–" : typeof value === "number" ? count(value) : value))))))),
    rows.length > ROWS_SHOWN ? h("p", { class: "rest" }, `${count(rows.length - ROWS_SHOWN)} more`) : null,
  ];
}

// --- the changes ---

const whole = (text) => (String(text).trim() === "" ? null : Number(text));

/** `name=value`, one per line; a name alone goes back to its default. */
export function settingsOf(text) {
  const found = {};
  for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    found[at < 0 ? line : line.slice(0, at).trim()] = at < 0 ? null : line.slice(at + 1).trim();
  }
  return found;
}

const MODES = [["isr", "isr"], ["primary-backup", "primary-backup"], ["quorum", "quorum"]];

export const createTopic = () => ({
  title: "Create a topic",
  verb: "Create it",
  fields: [
    ["name", "Name"],
    ["mode", "Mode", { kind: "choice", options: [["", "as the cluster has it"], ...MODES] }],
    ["partitions", "Partitions", { kind: "number", hint: "empty: as the cluster has it" }],
    ["replicas", "Replicas", { kind: "number", hint: "empty: as the cluster has it" }],
    ["settings", "Settings", { kind: "lines", hint: "name=value, one per line" }],
  ],
  body: (each) => ({ kind: "create-topic", name: each.name.trim(), partitions: whole(each.partitions), replicas: whole(each.replicas), settings: { ...settingsOf(each.settings), ...(each.mode ? { "replication.mode": each.mode } : {}) } }),
});

export const alterTopic = (topic) => ({
  title: `Change ${topic.name}`,
  verb: "Change it",
  fields: [
    ["mode", "Mode", { kind: "choice", value: "", options: [["", `as it is: ${topic.mode || "unknown"}`], ...MODES.filter(([mode]) => mode !== topic.mode)] }],
    ["settings", "Settings", { kind: "lines", hint: "name=value, one per line; a name alone goes back to its default" }],
    ["partitions", "Partitions", { kind: "number", hint: `empty: ${topic.partitions.length}, as now` }],
  ],
  body: (each) => ({ kind: "alter-topic", name: topic.name, partitions: whole(each.partitions), settings: { ...settingsOf(each.settings), ...(each.mode ? { "replication.mode": each.mode } : {}) } }),
});

export const deleteTopic = (name) => ({
  title: `Delete ${name}`,
  lead: "All records of the topic are deleted.",
  verb: "Delete it for good",
  fields: [["typed", "Type the name of the topic"]],
  body: (each) => ({ kind: "delete-topic", name, typed: each.typed }),
});

export const movePartition = (topic, index) => ({
  title: `Move ${topic.name}-${index}`,
  lead: "The first broker is the primary or the preferred leader.",
  verb: "Move it",
  fields: [["replicas", "Brokers", { value: topic.partitions[index][1].join(", "), hint: "numbers with commas between them" }]],
  body: (each) => ({ kind: "move", name: topic.name, partition: index, replicas: each.replicas.split(",").map((part) => Number(part)) }),
});

export const promoteReplica = (topic, index) => ({
  title: `Another leader for ${topic.name}-${index}`,
  verb: "Let it lead",
  fields: [["to", "Broker", { kind: "choice", value: String(topic.partitions[index][1].find((each) => each !== topic.partitions[index][0]) ?? ""), options: topic.partitions[index][1].filter((each) => each !== topic.partitions[index][0]).map((each) => [String(each), `broker ${each}`]) }]],
  body: (each) => ({ kind: "promote", name: topic.name, partition: index, to: Number(each.to) }),
});

export const drainBroker = (broker) => ({
  title: `Drain broker ${broker}`,
  verb: "Go on",
  fields: [["undo", "What", { kind: "choice", value: "", options: [["", "move its leaderships to others"], ["1", "end the drain"]] }]],
  body: (each) => ({ kind: "drain", broker, undo: Boolean(each.undo) }),
});

export const resetOffsets = (group) => ({
  title: `Reset offsets of ${group.name}`,
  lead: "Only while the group has no members.",
  verb: "Reset them",
  fields: [
    ["topic", "Topic", { hint: "empty: everything that the group has committed" }],
    ["to", "To", { value: "earliest", hint: "earliest, latest, an offset, or @ and milliseconds since 1970" }],
  ],
  body: (each) => ({ kind: "reset-offsets", group: group.group, topic: each.topic.trim(), to: each.to.trim() }),
});

export const produceMessage = (topic, partition) => ({
  title: `Write a message to ${topic.name}`,
  verb: "Write it",
  fields: [
    ["partition", "Partition", { kind: "number", value: partition === null ? "" : String(partition), hint: "empty: by the key" }],
    ["key", "Key", { hint: "empty: none" }],
    ["value", "Value", { kind: "lines" }],
    ["form", "Value is", { kind: "choice", options: [["text", "the text above"], ["null", "null, which deletes the key from a compacted topic"]] }],
    ["headers", "Headers", { kind: "lines", hint: "name=value, one per line" }],
  ],
  body: (each) => ({ kind: "produce", name: topic.name, partition: whole(each.partition), key: each.key || null, value: each.form === "null" ? null : each.value, headers: Object.entries(settingsOf(each.headers)).map(([name, value]) => [name, value ?? ""]) }),
});
