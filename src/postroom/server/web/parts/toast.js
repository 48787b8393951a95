// A word at the edge of the screen: what was done, with a way back, or what went wrong. And the undo stack that z takes from.

import { $, h } from "../lib/dom.js";

export const UNDO_MILLISECONDS = 6000;
const undos = [];

/** Say something for a while. Of those with an undo, the newest is what z takes back. Returns what removes it. */
export function toast(text, { undo = null, wrong = false, after = UNDO_MILLISECONDS, done = null } = {}) {
  const gone = () => {
    clearTimeout(timer);
    element.remove();
    const at = undos.indexOf(back);
    if (at >= 0) undos.splice(at, 1);
  };
  const back =
    undo &&
    (() => {
      gone();
      undo();
    });
  const element = h(
    wrong ? "div.toast.wrong" : "div.toast",
    {},
    h("span", {}, text),
    back && h("button.link", { type: "button", onclick: back }, "Undo"),
    wrong && h("button.link", { type: "button", onclick: gone }, "Dismiss"),
  );
  const timer = wrong
    ? 0
    : setTimeout(() => {
        gone();
        done?.();
      }, after);
  if (back) undos.push(back);
  $("#toasts").append(element);
  while ($("#toasts").children.length > 4) $("#toasts").firstElementChild.remove();
  return gone;
}

/** Take the last thing back; whether there was one. */
export function undoLast() {
  const back = undos.at(-1);
  back?.();
  return Boolean(back);
}

/** Say why something failed. */
export function failed(what, error) {
  toast([`${what} ${error.message}`, error.hint].filter(Boolean).join(" "), { wrong: true });
}
