// The messages of one partition: from an offset or a time, filtered, or live.

import { changeButton, produceMessage } from "../change.js";
import { h, fill, say } from "../dom.js";
import { bytes, clock, count, dateAndClock, indented, plural } from "../format.js";
import { empty, pill } from "../parts.js";
import { ask } from "../store.js";

const TAIL_MS = 700;
const ROWS_MAX = 500;

export function messages(root, topic) {
  let position = null; // where to go on
  let oldest = null; // from where on everything was looked at, if the newest come first
  let tailing = false;
  let isOpen = true;
  let timer = null;
  let asked = 0;

  const partition = h("select", { "aria-label": "Partition", on: { change: look } });
  const from = h("select", { "aria-label": "Where to begin", on: { change: showAt } }, [["newest", "newest"], ["oldest", "oldest"], ["offset", "from offset"], ["time", "from time"]].map(([value, text]) => h("option", { value }, text)));
  const offset = h("input", { type: "number", min: 0, value: 0, "aria-label": "Offset", hidden: true });
  const time = h("input", { type: "datetime-local", step: 1, "aria-label": "Time", hidden: true });
  const match = h("input", { type: "search", placeholder: "text, key:text or field=value", "aria-label": "Filter: a text, key:text, or a field of JSON such as customer.id=42", spellcheck: "false", class: "wide" });
  const hidden = h("input", { type: "checkbox" });
  const tail = h("input", { type: "checkbox", on: { change: () => setTail(tail.checked) } });
  const note = h("p", { class: "lead", role: "status" });
  const body = h("tbody");
  const more = h("button", { type: "button", hidden: true, on: { click: () => load(String(position), true) } }, "Show more");
  const older = h("button", { type: "button", hidden: true, on: { click: () => load(`<${oldest}`, true) } }, "Show older");
  const form = h("form", { class: "tools messages-tools", on: { submit: (event) => { event.preventDefault(); look(); } } },
    partition, from, offset, time, match,
    h("label", { class: "check" }, hidden, "aborted and control records"), h("label", { class: "check" }, tail, "live"), h("button", { type: "submit", class: "primary" }, "Look"), changeButton("Write a message", () => ({ ...produceMessage(topic, Number(partition.value || 0)), done: look })));
  root.append(form, note, h("div", { class: "frame" }, h("table", { class: "list messages" }, h("caption", { class: "unseen" }, "Messages"), h("thead", {}, h("tr", {},
    h("th", { scope: "col", class: "number" }, "Offset"), h("th", { scope: "col" }, "Time"), h("th", { scope: "col" }, "Key"), h("th", { scope: "col" }, "Value"))), body)), h("p", { class: "rest" }, more, older));
  topicChanged(topic);

  function topicChanged(seen) {
    while (partition.options.length < seen.partitions.length) partition.append(h("option", { value: partition.options.length }, `partition ${partition.options.length}`));
  }

  function showAt() {
    offset.hidden = from.value !== "offset";
    time.hidden = from.value !== "time";
    if (from.value === "newest" || from.value === "oldest") look();
  }

  function begin() {
    if (from.value === "offset") return String(Number(offset.value) || 0);
    if (from.value === "time") return `@${time.value ? new Date(time.value).getTime() : Date.now()}`;
    return from.value;
  }

  function look() {
    body.replaceChildren();
    load(begin(), false);
  }

  async function load(start, append) {
    const number = ++asked;
    clearTimeout(timer);
    try {
      const found = await ask("/api/messages", { name: topic.name, partition: partition.value || 0, from: start, match: match.value, ...(hidden.checked ? { hidden: 1 } : {}) });
      if (!isOpen || number !== asked) return;
      show(found, append, start.startsWith("<"));
    } catch (error) {
      if (isOpen && number === asked) say(note, error.message);
    }
    if (isOpen && tailing && number === asked) timer = setTimeout(() => load(position === null ? "newest" : String(position), true), TAIL_MS);
  }

  function show(found, append, isOlder) {
    if (!isOlder) position = found.next;
    if (isOlder || !append) oldest = found.start;
    const rows = found.rows.map((row) => messageRow(topic.name, partition.value || 0, row));
    const newestFirst = tailing || from.value === "newest";
    if (newestFirst && !isOlder) body.prepend(...rows.reverse());
    else body.append(...(isOlder ? rows.reverse() : rows));
    while (body.children.length > ROWS_MAX) (newestFirst && !isOlder ? body.lastChild : body.firstChild).remove();
    const where = `Offsets ${count(found.begin)} to ${count(found.end - 1)}`;
    const looked = match.value && (isOlder || !append) ? `; looked at ${plural(found.looked_at, "offset")} from ${count(found.start)} on` : "";
    say(note, found.end === found.begin ? "This partition is empty." : `${where}${looked}.`);
    if (!body.children.length && found.end > found.begin && found.next >= found.end) say(note, `${where}${looked}. Nothing there matches.`);
    more.hidden = tailing || newestFirst || found.next >= found.end;
    older.hidden = tailing || !newestFirst || oldest <= found.begin;
  }

  function setTail(on) {
    tailing = on;
    if (on) load(position === null ? "newest" : String(position), true);
    else clearTimeout(timer);
  }

  look();
  return {
    topicChanged,
    close() {
      isOpen = false;
      clearTimeout(timer);
    },
  };
}

function messageRow(topic, partition, row) {
  const value = h("td", { class: "payload" }, shown(row));
  const opener = h("button", { type: "button", class: "opener", "aria-expanded": "false", "aria-label": `Message at offset ${row.offset}` }, count(row.offset));
  const element = h("tr", { class: row.kind }, h("th", { scope: "row", class: "number" }, opener), h("td", { class: "time", "data-tip": dateAndClock(row.time) }, row.time < 0 ? "–" : clock(row.time)), h("td", { class: "payload key" }, payload(row.key)), value);
  let detail = null;
  const toggle = () => {
    if (detail) {
      detail.remove();
      detail = null;
    } else {
      detail = h("tr", { class: "detail" }, h("td", { colspan: 4 }, empty("Asking …")));
      element.after(detail);
      expand(detail.firstChild, topic, partition, row);
    }
    opener.setAttribute("aria-expanded", String(detail !== null));
  };
  opener.addEventListener("click", (event) => {
    event.stopPropagation();
    toggle();
  });
  element.addEventListener("click", () => {
    if (!getSelection()?.toString()) toggle();
  });
  const removeRow = element.remove.bind(element);
  element.remove = () => {
    detail?.remove();
    removeRow();
  };
  return element;
}

function shown(row) {
  if (row.kind === "control") return h("em", {}, `control record: ${row.marker}`);
  if (row.kind === "damaged") return h("em", {}, `damaged: ${row.reason}`);
  return [row.kind === "aborted" ? pill("warn", "aborted") : null, payload(row.value)];
}

function payload(part) {
  if (part.form === "null") return h("em", {}, "null");
  if (part.form === "empty") return h("em", {}, "empty");
  return [h("code", { class: part.form }, part.text), part.cut ? h("small", {}, bytes(part.size)) : null];
}

async function expand(cell, topic, partition, row) {
  let full = row;
  try {
    const found = await ask("/api/messages", { name: topic, partition, from: String(row.offset), limit: 1, whole: 1, hidden: 1 });
    if (found.rows[0]?.offset === row.offset) full = found.rows[0];
  } catch {
    // What the list has is shown.
  }
  const facts = [["time", dateAndClock(row.time)], ["leader epoch", row.epoch], ["compression", row.codec], ["producer", row.producer >= 0 ? row.producer : "not idempotent"], ["transaction", row.transactional ? (row.kind === "aborted" ? "aborted" : "yes") : "no"]];
  fill(cell,
    h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, String(value))))),
    full.headers.length ? h("div", {}, h("h3", {}, "Headers"), h("dl", { class: "headers" }, full.headers.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, payload(value)))))) : null,
    full.kind === "control" ? null : [h("h3", {}, "Key"), block(full.key), h("h3", {}, `Value · ${full.value.form} · ${bytes(full.value.size)}${full.value.cut ? ", its beginning" : ""}`), block(full.value)]);
}

function block(part) {
  if (part.form === "null" || part.form === "empty") return h("p", {}, h("em", {}, part.form));
  let text = part.text;
  if ((part.form === "json" || part.form === "avro") && !part.cut) {
    try {
      JSON.parse(text);
      text = indented(text);
    } catch {
      // An escape made it something else: as it is.
    }
  }
  return h("pre", { tabindex: "0" }, text);
}
