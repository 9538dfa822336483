// The frame: which view is shown, the theme, whether the page is live.

import "./token.js"; // First: it takes the token out of the address.
import { connect, get, store, subscribe } from "./store.js";
import { say } from "./dom.js";
import { cluster } from "./views/cluster.js";
import { topics } from "./views/topics.js";
import { topic } from "./views/topic.js";
import { groups } from "./views/groups.js";
import { timeline } from "./views/timeline.js";
import { whatIf } from "./views/what_if.js";
import { playground } from "./views/playground.js";

const ROUTES = [
  [/^\/$/, cluster, "Cluster", "/"],
  [/^\/topics$/, topics, "Topics", "/topics"],
  [/^\/topic\/([^/]+)$/, topic, "Topic", "/topics"],
  [/^\/groups$/, groups, "Groups", "/groups"],
  [/^\/group$/, groups, "Group", "/groups"],
  [/^\/timeline$/, timeline, "Time line", "/timeline"],
  [/^\/what-if$/, whatIf, "What if", "/what-if"],
  [/^\/playground$/, playground, "Playground", "/playground"],
];

const main = document.getElementById("main");
let view = null;

// A view is a function: (its element, the parts of the path) → {update(keys), close()}.
function show(isFirst) {
  view?.close?.();
  hideTip();
  const [, make, name, tab, found] = match();
  document.title = found.length ? `${found[0]} · Tidelog` : `${name} · Tidelog`;
  for (const link of document.querySelectorAll(".bar nav a")) {
    if (link.getAttribute("href") === tab) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  showTab();
  const element = document.createElement("div");
  element.className = "view";
  main.replaceChildren(element);
  view = make(element, found);
  view.update?.(null);
  if (!isFirst) {
    window.scrollTo(0, 0);
    (element.querySelector("h1") ?? main).focus({ preventScroll: true });
  }
}

/** On a narrow screen the views do not fit side by side. */
function showTab() {
  document.querySelector(".bar nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
}

function match() {
  for (const [pattern, make, name, tab] of ROUTES) {
    const found = pattern.exec(location.pathname);
    if (found) return [pattern, make, name, tab, found.slice(1).map(decoded)];
  }
  return [null, cluster, "Cluster", "/", []];
}

/** A part of the address; as it stands there if it is no encoded text, which a person may have typed. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function go(path) {
  history.pushState(null, "", path);
  show(false);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const path = link.getAttribute("href");
  if (path === "#main") {
    // Not by the address: what follows the # there is the tab of a topic.
    event.preventDefault();
    main.focus();
    return;
  }
  if (!path.startsWith("/") || path.startsWith("/static/")) return;
  event.preventDefault();
  go(path);
});
window.addEventListener("popstate", () => show(false));

// --- theme ---

const root = document.documentElement;
const preferred = matchMedia("(prefers-color-scheme: dark)");
const theme = () => localStorage.getItem("theme") ?? (preferred.matches ? "dark" : "light");
const paint = () => root.setAttribute("data-theme", theme());
document.getElementById("theme").addEventListener("click", () => {
  localStorage.setItem("theme", theme() === "dark" ? "light" : "dark");
  paint();
});
preferred.addEventListener("change", paint);
paint();

// --- whether what is shown is live ---

const live = document.getElementById("live");
const WORDS = { connecting: "connecting", live: "live", lost: "reconnecting" };

function showStatus() {
  const unseen = store.status === "live" && get("cluster") && !get("cluster").seen;
  live.dataset.state = unseen ? "lost" : store.status;
  say(live, unseen ? "no broker answers" : WORDS[store.status]);
}

// --- tips: `data-tip` on anything ---

const tip = document.getElementById("tip");

export function hideTip() {
  tip.hidden = true;
}

document.addEventListener("pointerover", (event) => {
  const of = event.target.closest?.("[data-tip]");
  if (!of) {
    hideTip();
    return;
  }
  say(tip, of.dataset.tip);
  tip.hidden = false;
  const box = of.getBoundingClientRect();
  const size = tip.getBoundingClientRect();
  const left = Math.min(Math.max(box.left + box.width / 2 - size.width / 2, 8), innerWidth - size.width - 8);
  const above = box.top - size.height - 8;
  tip.style.setProperty("left", `${left}px`);
  tip.style.setProperty("top", `${above < 8 ? box.bottom + 8 : above}px`);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideTip();
});

const groundTab = document.querySelector(".bar nav a[href='/playground']");

subscribe((keys) => {
  showStatus();
  if (groundTab.hidden === Boolean(store.may.playground)) {
    groundTab.hidden = !store.may.playground;
    showTab();
  }
  view?.update?.(keys);
});
show(true);
connect();
