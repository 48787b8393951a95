// Functions that make elements. Text stays text. Only safe() accepts HTML, which our server has sanitised.

const SVG = "http://www.w3.org/2000/svg";

/** h("button.quiet", {onclick, "aria-label": …}, children…): an element with its classes, attributes, listeners and children. */
export function h(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  return dress(document.createElement(name || "div"), classes, attributes, children);
}

/** The same for SVG elements. */
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

/** An element with HTML that our server has sanitised. Links open in another tab. */
export function safe(tag, html) {
  const element = h(tag);
  element.innerHTML = html;
  for (const link of element.querySelectorAll('a[href]:not([href^="#"])')) link.target = "_blank";
  for (const wide of element.querySelectorAll("pre, table")) wide.tabIndex = 0; // those that scroll can be scrolled by keys
  return element;
}

/** Replace the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const $ = (selector, within = document) => within.querySelector(selector);
