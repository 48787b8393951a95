// Replies and answers. They can be taken back for some seconds. Typed text is kept until the server has it, and stored once however often
// it is sent. What could not be sent because the server is away waits in this browser, and is sent once it is back.

import { at, post } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { later, pendingOf, sendNow } from "../lib/pending.js";
import { draft, dropDraft, keepDraft, keyFor, keptReplies, keepReply, dropReply } from "../lib/settings.js";
import { failed, toast } from "../parts/toast.js";
import { icon } from "../parts/icons.js";

const entryRoute = (id) => at("api", "inbox", id, "reply");

/** Send a reply to an entry, or to what another route stands for. Return the server's answer, or null. */
export async function send(id, body, { of = `entry:${id}`, path = entryRoute(id), keepalive = false } = {}) {
  const text = JSON.stringify(body);
  const key = keyFor(of, text);
  if (keepalive) {
    // The page does not see the answer any more. The next one sends it again, which stores it once.
    keepReply(key, { id, path, body, of, left: true });
    if (isSent(of, body)) keepDraft(of, { text: "" });
  }
  try {
    const answer = await post(path, body, { "Idempotency-Key": key }, keepalive);
    forget(of, body);
    dropReply(key);
    if (answer.note) toast(answer.note);
    return answer;
  } catch (error) {
    if (error.code === "away") {
      replaceChoice(id, body);
      keepReply(key, { id, path, body, of });
      toast("The server is away. Your words are kept, and sent when it is back.");
    } else failed("The reply was not sent.", error, { kept: true });
    return null;
  }
}

/** Of several choices that were made while the server was away, the last one holds. Texts are all sent. */
function replaceChoice(id, { comment }) {
  for (const [key, kept] of Object.entries(keptReplies()))
    if (!comment && kept.id === id && !kept.body.comment && !kept.left) dropReply(key);
}

const isSent = (of, { body }) => !draft(of).text || draft(of).text.trim() === body;

/** Forget the draft of a text that arrived. What was typed since is kept. */
function forget(of, body) {
  if (isSent(of, body)) dropDraft(of);
  else keepDraft(of, { sent: null, key: null });
}

/** Send the replies that were written while the server was away, or of which the page that was left saw no answer, each once. */
export async function sendKept() {
  for (const [key, { id, path = entryRoute(id), body, of, left }] of Object.entries(keptReplies())) {
    try {
      await post(path, body, { "Idempotency-Key": key });
      if (!left) toast("What you wrote while the server was away is sent.");
    } catch (error) {
      if (error.code === "away") return;
      dropReply(key);
      if (body.body && !draft(of).text) keepDraft(of, { text: body.body });
      failed("A reply that you wrote before was refused.", error, { kept: true });
      continue;
    }
    dropReply(key);
    forget(of, body);
    window.dispatchEvent(new CustomEvent("postroom.sent", { detail: { of, text: body.body } }));
  }
}

/**
 * Send after the undo has expired. `done(answer)` is called with the server's answer or null, `back()` if it was taken back. Another
 * choice replaces the one that waits; a text that was `typed` does not: what waits is sent before it.
 */
export function sendLater(id, body, { words, of, path, done, back, typed = false }) {
  if (pendingOf(`reply ${id}`)[0] === words) return sendNow(`reply ${id}`); // pressed again
  if (typed) sendNow(`reply ${id}`);
  const shown = words.length > 40 ? `${words.slice(0, 39)}…` : words;
  const act = async (leaving) => await done?.(await send(id, body, { of, path, keepalive: leaving }));
  later(`reply ${id}`, `Sending: ${shown}`, { send: act, back, value: words });
}

/** A reply bar under a conversation. sending(text) sends the text and returns whether it arrived. */
export function replyBar(of, { sending, placeholder = "Reply…", before = null }) {
  const field = h("textarea", { "aria-label": "Reply", rows: "1", placeholder, dir: "auto" });
  const button = h("button.primary", { type: "submit" }, icon("send"), h("span", {}, "Send"));
  const grow = () => {
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight + 2, 240)}px`;
    button.disabled = !field.value.trim();
  };
  field.value = draft(of).text;
  field.addEventListener("input", () => {
    keepDraft(of, { text: field.value });
    grow();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    if (event.ctrlKey || event.metaKey) form.requestSubmit();
    else if (!field.value && sendNow("reply ")) event.preventDefault();
  });
  const form = h("form.reply", {}, before, field, button);
  window.addEventListener("postroom.sent", ({ detail }) => {
    if (detail.of === of && field.value.trim() === detail.text) form.setText(""); // it was sent meanwhile
  });
  form.setText = (text) => {
    field.value = text;
    keepDraft(of, { text });
    grow();
  };
  form.quote = (words) => {
    form.setText(field.value ? `${field.value.trimEnd()}\n\n${words}` : words);
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (!text || form.ariaBusy === "true") return;
    form.ariaBusy = "true";
    button.disabled = true;
    if ((await sending(text)) && field.value.trim() === text) field.value = "";
    else keepDraft(of, { text: field.value });
    form.ariaBusy = "false";
    grow();
  });
  requestAnimationFrame(grow);
  return form;
}
