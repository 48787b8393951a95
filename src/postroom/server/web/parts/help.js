// The help of the keys.

import { h } from "../lib/dom.js";
import { dialog } from "./dialog.js";

const KEYS = [
  ["j  k", "Next and previous"],
  ["Enter  o", "Open"],
  ["e", "Done: read, and on to the next"],
  ["u", "Unread"],
  ["r", "Reply"],
  ["Ctrl Enter", "Send the reply"],
  ["1 … 9", "Choose an answer"],
  ["#  Delete", "Delete"],
  ["z", "Undo"],
  ["/", "Search"],
  ["g i  g t  g r", "Inbox, threads, runs"],
  ["g m  g q  g a", "Mailboxes, queues, agents"],
  ["Ctrl K", "Command palette"],
  ["Escape", "Close, or leave a field"],
  ["?", "This help"],
];

export function help() {
  const lines = KEYS.flatMap(([keys, what]) => [
    h(
      "dt",
      {},
      keys.split("  ").flatMap((key, at) => [at ? " " : null, h("kbd", {}, key)]),
    ),
    h("dd", {}, what),
  ]);
  dialog("Keyboard shortcuts", h("dl.body.shortcuts", {}, lines));
}
