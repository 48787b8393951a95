// The help of the keys.

import { h } from "../lib/dom.js";
import { dialog } from "./dialog.js";

const KEYS = [
  ["j  k", "Next and previous"],
  ["Enter  o", "Open"],
  ["e", "Done, and on to the next"],
  ["h", "Snooze"],
  ["p", "Pin"],
  ["x  J  K", "Choose several"],
  ["u  U", "Unread, read"],
  ["n", "Next question"],
  ["c", "New message"],
  ["r", "Reply"],
  ["Ctrl Enter", "Send the reply"],
  ["1 … 9", "Choose an answer, or approve and reject"],
  ["Enter", "Send an answer at once"],
  ["#  Delete", "Delete"],
  ["z", "Undo"],
  ["/", "Search"],
  ["g y  g i  g n", "Needs you, inbox, notices"],
  ["g t  g k  g r", "Threads, tasks, runs"],
  ["g m  g q  g a  g s", "Mailboxes, queues, agents, settings"],
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
