// What a room shows when it has nothing to show: yet, at all, or because something is in the way.

import { h } from "../lib/dom.js";

/** Placeholders of the height to come. They appear only if it takes a while. */
export function loading(rows = 6, height = 40) {
  const ghosts = Array.from({ length: rows }, () => {
    const ghost = h("div.ghost");
    ghost.style.height = `${height - 8}px`;
    return ghost;
  });
  return h("div.loading", { role: "status", "aria-label": "Loading" }, ghosts);
}

/** Why it cannot be shown, what to do, and a way to look again. */
export function trouble(error, again) {
  return h(
    "div.empty.trouble",
    { role: "alert" },
    h("h2", {}, error.message || "This could not be shown."),
    error.hint && h("p", {}, error.hint),
    h("p.small", {}, "Code: ", h("code", {}, error.code ?? error.name)),
    again && h("div.actions", {}, h("button", { type: "button", onclick: again }, "Try again")),
  );
}

/** Nothing is here, why that is, and what one can do about it. */
export function nothing(title, text, ...actions) {
  return h("div.empty", {}, h("h2", {}, title), text && h("p", {}, text), actions.length > 0 && h("div.actions", {}, actions));
}
