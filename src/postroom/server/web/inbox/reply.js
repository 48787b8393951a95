// The reply bar. Typed text is kept until the server has it. A text that is sent twice is stored once.

import { at, post } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { draft, dropDraft, keepDraft, keyFor } from "../lib/settings.js";
import { failed } from "../parts/toast.js";
import { icon } from "../parts/icons.js";

/** Send a reply to an entry. Return the server's answer, or null. */
export async function send(id, text, of = `entry:${id}`) {
  try {
    const answer = await post(at("api", "inbox", id, "reply"), { body: text }, { "Idempotency-Key": keyFor(of, text) });
    dropDraft(of);
    return answer;
  } catch (error) {
    failed("The reply was not sent.", error);
    return null;
  }
}

/** A reply bar under a conversation. sending(text) sends the text and returns whether it arrived. */
export function replyBar(of, { sending, placeholder = "Reply…", before = null }) {
  const field = h("textarea", { "aria-label": "Reply", rows: "1", placeholder });
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
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  const form = h("form.reply", {}, before, field, button);
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
