// Short messages at the edge of the screen, some with an undo, and the undo stack of the key z.

import { $, h } from "../lib/dom.js";

export const UNDO_MILLISECONDS = 6000;
const MOST = 4; // messages at once
const undos = [];

/** Show a message for a while. The key z calls the newest undo. Returns a function that removes the message. */
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
    { "data-pending": Boolean(done) },
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
  makeRoom();
  return gone;
}

/** Remove the oldest messages: first those that only say what was done. */
function makeRoom() {
  const all = $("#toasts");
  while (all.children.length > MOST) ($(".toast:not(.wrong, [data-pending])", all) ?? all.firstElementChild).remove();
}

/** Call the newest undo. Return whether there was one. */
export function undoLast() {
  const back = undos.at(-1);
  back?.();
  return Boolean(back);
}

/** Show why something failed. `kept`: the person's words are kept. */
export function failed(what, error, { kept = false } = {}) {
  toast([`${what} ${error.message}`, error.hint, kept && "What you wrote is kept."].filter(Boolean).join(" "), { wrong: true });
}
