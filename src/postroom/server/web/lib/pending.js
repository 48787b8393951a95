// Actions that can still be taken back. They are kept above the rooms: leaving a room neither sends nor loses them. An action is sent when
// its time is over, when the page is left, or when the person says so. What could not be sent while offline is sent later, once.

import { toast } from "../parts/toast.js";

export const UNDO_MILLISECONDS = 5000;
const waiting = new Map(); // key → {send, finish, undo}
const sending = new Map(); // key → the number of requests on their way
const listeners = new Set();

const changed = () => listeners.forEach((listener) => listener());

/** Call a function whenever an action begins or ends. Returns a function that stops this. */
export function onPending(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Whether an action waits to be sent, or its request is on the way. */
export const isPending = (key) => waiting.has(key) || sending.has(key);

/** The values of the actions whose key begins with a text. */
export const pendingOf = (start) => [...waiting].filter(([key]) => key.startsWith(start)).map(([, action]) => action.value);

/**
 * Show a message with an undo, and call send() when it can no longer be taken back. `send(leaving)` is told whether the page is being
 * left: a request must then outlive the page. `back()` is called if the person takes it back.
 */
export function later(key, text, { send, back, value = null, after = UNDO_MILLISECONDS }) {
  waiting.get(key)?.drop(); // the person thought better of it
  const end = () => {
    if (waiting.get(key) !== action) return false;
    waiting.delete(key);
    gone();
    return true;
  };
  const finish = (leaving = false) => {
    if (!end()) return;
    sending.set(key, (sending.get(key) ?? 0) + 1);
    Promise.resolve(send(leaving)).finally(() => {
      if (sending.get(key) > 1) sending.set(key, sending.get(key) - 1);
      else sending.delete(key);
      changed();
    });
    changed();
  };
  const undo = () => end() && (back?.(), changed());
  const action = { finish, undo, drop: end, value };
  waiting.set(key, action);
  const gone = toast(text, { undo, after, done: finish });
  changed();
}

/** Send the actions whose key begins with a text, now. Returns whether there was one. */
export function sendNow(start = "") {
  const some = [...waiting].filter(([key]) => key.startsWith(start));
  for (const [, { finish }] of some) finish();
  return some.length > 0;
}

/** Send the answers and replies that wait, by the key Enter, unless it presses an Undo or a link of the bar. Returns whether there was one. */
export const sendByEnter = ({ target }) => !target.closest?.("#toasts, .bar") && sendNow("reply ");

window.addEventListener("pagehide", () => {
  for (const { finish } of waiting.values()) finish(true);
});
