// The display of a room without data: placeholders, an empty state, or an error.

import { h } from "../lib/dom.js";
import { address, here } from "../lib/router.js";

/** Placeholders of the expected height. They appear only after a delay. */
export function loading(rows = 6, height = 40) {
  const ghosts = Array.from({ length: rows }, () => {
    const ghost = h("div.ghost");
    ghost.style.height = `${height - 8}px`;
    return ghost;
  });
  return h("div.loading", { role: "status", "aria-label": "Loading" }, ghosts);
}

/** An error: the reason, the hint, and a button to try again. What is not there has a link to the room instead. */
export function trouble(error, again) {
  if (error.status === 404)
    return nothing(error.message, "It may have been removed.", h("a.button", { href: address(here().room) }, "Show all"));
  return h(
    "div.empty.trouble",
    { role: "alert" },
    h("h2", {}, error.message || "This could not be shown."),
    error.hint && h("p", {}, withCode(error.hint)),
    h("p.small", {}, "Code: ", h("code", {}, error.code ?? error.name)),
    again && h("div.actions", {}, h("button", { type: "button", onclick: again }, "Try again")),
  );
}

/** A hint of the server, in which commands stand between backticks. */
const withCode = (hint) => hint.split("`").map((part, at) => (at % 2 ? h("code", {}, part) : part));

/** An empty state: a title, the reason, and what to do. */
export function nothing(title, text, ...actions) {
  return h(
    "div.empty",
    {},
    h("h2", {}, title),
    text && h("p", {}, typeof text === "string" ? withCode(text) : text),
    actions.length > 0 && h("div.actions", {}, actions),
  );
}

/** A command that is broken at its spaces alone, not in the middle of a flag. */
export const commandWords = (text) => text.split(/(\s+)/).map((part) => (part.trim() ? h("span.word", {}, part) : part));

/** A command to try. */
export const tryThis = (text) => h("code.try", {}, commandWords(text));

const FIRST_KEYS = [
  ["j k", "Move in the list"],
  ["Enter", "Open"],
  ["n", "Next question"],
  ["1 … 9", "Answer it"],
  ["e", "Done"],
  ["h", "Snooze"],
  ["c", "New message"],
  ["Ctrl K", "Everything else"],
  ["?", "All keys"],
];

/** The pane beside the list while no entry is open: the keys that a person needs first. */
export function quietPane() {
  const line = ([keys, what]) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, what)];
  return h("div.empty.quiet", {}, h("h2", {}, "Nothing is open"), h("dl.shortcuts", {}, FIRST_KEYS.map(line)));
}
