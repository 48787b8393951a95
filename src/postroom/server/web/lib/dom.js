// Elements, made by hand. Text is always text; HTML comes in by one door, safe(), and only from our own server.

const SVG = "http://www.w3.org/2000/svg";

/** h("button.quiet", {onclick, "aria-label": …}, children…): an element with its classes, attributes, listeners and children. */
export function h(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  return dress(document.createElement(name || "div"), classes, attributes, children);
}

/** The same, of SVG. */
export function svg(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  return dress(document.createElementNS(SVG, name), classes, attributes, children);
}

function dress(element, classes, attributes, children) {
  if (classes.length) element.classList.add(...classes);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && typeof value !== "string" && !(element instanceof SVGElement)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An element whose HTML our server has made harmless. Links leave this page, so they open elsewhere. */
export function safe(tag, html) {
  const element = h(tag);
  element.innerHTML = html;
  for (const link of element.querySelectorAll("a[href]")) link.target = "_blank";
  for (const wide of element.querySelectorAll("pre, table")) wide.tabIndex = 0; // those that scroll can be scrolled by keys
  return element;
}

/** Put children in place of whatever an element has. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const $ = (selector, within = document) => within.querySelector(selector);
