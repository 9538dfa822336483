// Elements from values. Text is always a text node: no name or payload is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element. Attributes: `class`, `on` (event → handler), `style` (property → value), all others as they are. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else if (name === "style") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Replace what an element contains. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Set a text only if it differs, so that nothing flickers and selections stay. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function attribute(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
}

/** The children of an element, one for each key, in order; made and updated as needed. */
export function keyed(parent, keys, make, update) {
  const there = parent.keyed ?? (parent.keyed = new Map());
  const wanted = new Set(keys);
  for (const [key, element] of there) {
    if (!wanted.has(key)) {
      element.remove();
      there.delete(key);
    }
  }
  let previous = null;
  for (const key of keys) {
    let element = there.get(key);
    if (!element) {
      element = make(key);
      there.set(key, element);
    }
    const next = previous ? previous.nextSibling : parent.firstChild;
    if (element !== next) parent.insertBefore(element, next);
    if (update) update(element, key);
    previous = element;
  }
}
