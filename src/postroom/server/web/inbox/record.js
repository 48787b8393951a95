// The record of an entry: its receipts, and the messages of its thread before the question.

import { at, get } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { clock, full, when } from "../lib/time.js";

const MOST_BEFORE = 20;
const STEPS = {
  stored: "Stored",
  added: "Added to",
  offered: "Listed",
  seen: "Opened",
  answered: "Answered",
  default: "Silence took the default",
  refused: "Silence refused",
  ended: "Not asked any more",
  escalated: "Escalated",
  alert_queued: "Alert queued for",
  alert_sent: "Alert sent to",
  alert_failed: "Alert not accepted for",
  reply_stored: "Reply stored",
  reply_offered: "Reply offered",
  reply_injected: "Reply in the agent's context",
  reply_seen: "Reply seen",
};

/** The step in which an agent saw a reply. */
export const seenStep = ({ receipts }, reply) => receipts.find((receipt) => receipt.step === "reply_seen" && receipt.reply === reply.id);

export function receiptsOf(receipts) {
  return h(
    "details.receipts",
    {},
    h("summary", {}, "Receipts"),
    h(
      "ol",
      {},
      receipts.map(({ step, at: stamp, by, door }) =>
        h(
          "li",
          {},
          h("time", { title: full(when(stamp)) }, clock(when(stamp))),
          h("span", {}, STEPS[step] ?? step),
          h("span.soft", {}, [by && (step.startsWith("alert_") ? by : `by ${by}`), door && `through ${door}`].filter(Boolean).join(" ")),
        ),
      ),
    ),
  );
}

/** The messages of the thread before its question, loaded when it is shown. */
export function threadBefore(entry) {
  const box = h("details.before", { open: true }, h("summary", {}, "Before this question"));
  get(`${at("api", "threads", entry.threadId)}?limit=${MOST_BEFORE}`).then(
    (page) => {
      const asked = page.messages.findIndex((message) => message.message_id === entry.question?.questionId);
      const before = asked < 0 ? page.messages : page.messages.slice(0, asked);
      if (!before.length) box.remove();
      else fill(box, h("summary", {}, "Before this question"), h("ol", {}, before.map(line)));
    },
    () => box.remove(), // the link to the thread is in the header
  );
  return box;
}

function line(message) {
  return h(
    "li",
    {},
    h("strong", {}, message.from_agent),
    h("span.soft", {}, ` ${message.kind} `),
    h("span", { dir: "auto" }, message.summary || message.body.slice(0, 300)),
  );
}
