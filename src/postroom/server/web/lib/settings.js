// What a person chose, and what they have not sent yet: kept in this browser. A browser that keeps nothing works too.

const KEY = "postroom.settings";
const USUAL = { theme: "system", group: "date", notify: false, quiet: false, quietFrom: "22:00", quietTo: "07:00" };
const listeners = new Set();

function load(key) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? null;
  } catch {
    return null;
  }
}

function save(key, value) {
  try {
    if (value === null) localStorage.removeItem(key);
    else localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // private windows and full disks: it holds until the page is closed
  }
}

let current = { ...USUAL, ...load(KEY) };

export const settings = () => current;

export function choose(changes) {
  current = { ...current, ...changes };
  save(KEY, current);
  for (const listener of listeners) listener(current);
}

export function onChoice(listener) {
  listeners.add(listener);
}

window.addEventListener("storage", (event) => {
  if (event.key !== KEY) return;
  current = { ...USUAL, ...load(KEY) };
  for (const listener of listeners) listener(current);
});

// Drafts: what is written and not yet taken, one for each conversation. `key` makes a text that is sent twice arrive once: another
// text gets another key, and so does the next one after it has arrived.

const drafts = new Map();
const draftKey = (of) => `postroom.draft.${of}`;
const fresh = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

export const draft = (of) => drafts.get(of) ?? load(draftKey(of)) ?? { text: "", key: null, sent: null };

export function keepDraft(of, changes) {
  const kept = { ...draft(of), ...changes };
  drafts.set(of, kept);
  save(draftKey(of), kept.text || kept.sent ? kept : null);
}

/** The key to send a text with: the same as before if the same text was sent and nobody knows whether it arrived. */
export function keyFor(of, text) {
  if (draft(of).sent !== text) keepDraft(of, { sent: text, key: fresh() });
  return draft(of).key;
}

/** It has arrived. */
export function dropDraft(of) {
  drafts.delete(of);
  save(draftKey(of), null);
}
