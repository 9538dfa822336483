// Numbers and times as people read them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(value) {
  if (value === null || value === undefined || value < 0) return "–";
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

export function count(value) {
  if (value === null || value === undefined) return "–";
  return Number(value).toLocaleString("en-US");
}

/** Short: 950, 1.2k, 3.4M. */
export function short(value) {
  if (value === null || value === undefined || value < 0) return "–";
  if (value < 1000) return value < 10 && value % 1 ? value.toFixed(1) : String(Math.round(value));
  if (value < 1e6) return `${(value / 1e3).toFixed(value < 1e4 ? 1 : 0)}k`;
  return `${(value / 1e6).toFixed(value < 1e7 ? 1 : 0)}M`;
}

export function plural(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

export function percent(part, whole) {
  return whole > 0 ? `${Math.round((100 * part) / whole)} %` : "–";
}

const pad = (value, width = 2) => String(value).padStart(width, "0");

export function clock(ms, withMs = true) {
  const at = new Date(ms);
  const text = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  return withMs ? `${text}.${pad(at.getMilliseconds(), 3)}` : text;
}

export function dateAndClock(ms) {
  if (ms < 0) return "no time";
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return `${ms} ms`;
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${clock(ms)}`;
}

export function milliseconds(value) {
  return value < 1000 ? `${value} ms` : `${(value / 1000).toFixed(value < 10000 ? 2 : 1)} s`;
}

export function listed(values, joint = "and") {
  const words = values.map(String);
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} ${joint} ${words.at(-1)}`;
}

// Strangers write messages: 400,000 characters that are nested 900 deep would become hundreds of millions.
const INDENTED_MAX = 1000000;

/** JSON with line breaks, unless they make too much of it. Its tokens stay as they are: numbers may have more
 * digits than scripts can count with.
 */
export function indented(text) {
  let depth = 0;
  let size = 0;
  const parts = [];
  const line = () => {
    size += 2 * depth;
    return size > INDENTED_MAX ? "" : `\n${"  ".repeat(depth)}`;
  };
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g)) {
    if (token === "{" || token === "[") {
      parts.push(token);
      depth += 1;
      parts.push(line());
    } else if (token === "}" || token === "]") {
      depth -= 1;
      if (parts.at(-2) === "{" || parts.at(-2) === "[") parts.pop(); // nothing inside
      else parts.push(line());
      parts.push(token);
    } else if (token === ",") parts.push(token, line());
    else if (token === ":") parts.push(": ");
    else parts.push(token);
    if (size > INDENTED_MAX) return text;
  }
  return parts.join("");
}
