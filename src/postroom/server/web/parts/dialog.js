// Dialogs: the browser's own, which keeps the focus inside and closes with Escape.

import { h } from "../lib/dom.js";
import { icon } from "./icons.js";

/** Open a dialog with a name. It is removed from the page when it closes. */
export function dialog(name, ...children) {
  const heading = h("h2", {}, name);
  const shut = h("button.icon-button", { type: "button", "aria-label": "Close", onclick: () => element.close() }, icon("close"));
  const element = h("dialog", { "aria-label": name, onclose: () => element.remove() }, h("header", {}, heading, shut), ...children);
  element.addEventListener("click", (event) => event.target === element && element.close());
  document.body.append(element);
  element.showModal();
  return element;
}

/**
 * Ask for confirmation of an act that cannot be undone. Return whether it was confirmed; with `reason` (true, or a field for it), the text
 * of the reason field. With `safe`, the focus is not on the act: a key that is pressed once too often does nothing.
 */
export function confirm(name, text, yes, { reason = false, no = "Keep", safe = false } = {}) {
  return new Promise((answer) => {
    const why = reason === true ? h("input", { type: "text", "aria-label": "Reason", placeholder: "Reason (optional)" }) : reason;
    const stay = h("button", { type: "button", autofocus: safe, onclick: () => element.close() }, no); // Enter in the field confirms
    const act = h("button.danger", { value: "yes", autofocus: !safe && !why }, yes);
    const form = h("form", { method: "dialog" }, h("p", {}, text), why, h("div.actions", {}, stay, act));
    const element = dialog(name, form);
    element.addEventListener("close", () => answer(element.returnValue === "yes" && (reason ? { reason: why.value.trim() } : true)));
  });
}
