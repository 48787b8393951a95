// The settings and drafts of a person, kept in this browser. Works without storage, too.

const KEY = "postroom.settings";
const USUAL = {
  theme: "system",
  rows: "two",
  nav: "narrow",
  group: "date",
  notify: false,
  quiet: false,
  quietFrom: "22:00",
  quietTo: "07:00",
};
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
    // in private windows and on full disks, the value is kept until the page closes
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

// Drafts: unsent text, one for each conversation. `key` is the idempotency key of the text: a changed
// text gets another key, and so does the next text after the first was delivered.

const drafts = new Map();
const draftKey = (of) => `postroom.draft.${of}`;
const fresh = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

export const draft = (of) => drafts.get(of) ?? load(draftKey(of)) ?? { text: "", key: null, sent: null };

export function keepDraft(of, changes) {
  const kept = { ...draft(of), ...changes };
  drafts.set(of, kept);
  save(draftKey(of), kept.text || kept.sent ? kept : null);
}

/** The idempotency key of a text. It stays the same while the same text is sent again after an unknown outcome. */
export function keyFor(of, text) {
  if (draft(of).sent !== text) keepDraft(of, { sent: text, key: fresh() });
  return draft(of).key;
}

/** Forget the draft: the server has it. */
export function dropDraft(of) {
  drafts.delete(of);
  save(draftKey(of), null);
}

// Replies that were written while the server was away, by their idempotency key.

const KEPT = "postroom.replies";

export const keptReplies = () => load(KEPT) ?? {};

/** The reply to an entry that waits for the server, if there is one. */
export const keptReplyTo = (id) => Object.values(keptReplies()).find((reply) => reply.id === id && !reply.left);
export const keepReply = (key, reply) => save(KEPT, { ...keptReplies(), [key]: reply });

export function dropReply(key) {
  const rest = Object.fromEntries(Object.entries(keptReplies()).filter(([kept]) => kept !== key));
  save(KEPT, Object.keys(rest).length ? rest : null);
}
