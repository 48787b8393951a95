// The messages of a thread. Work and questions are blocks. Progress and control messages are single lines.

import { h } from "../lib/dom.js";
import { clock } from "../lib/time.js";
import { pendingNote } from "../inbox/question.js";
import { icon } from "../parts/icons.js";
import { face, stamp } from "./words.js";

const KINDS = {
  task: "Task",
  progress: "Progress",
  question: "Question",
  answer: "Answer",
  result: "Result",
  control: "Control",
  event: "Event",
};
const TONES = { question: "warn", answer: "accent" };
const BY_THE_WAY = new Set(["progress", "control", "event"]);
const DOORS = { cli: "the command line", library: "a program" };

/**
 * `answer(choice, id, terms)` answers an open question that names its choices. `choose(id)` chooses the one that the reply bar answers, if
 * several are open: `chosen` is its id. `earlier()` loads the messages between the first one and those that are shown.
 * `pending(id)` is the text that waits to be sent as the answer to a question, or without an id as a reply.
 */
export function conversation({ thread, messages, html, people, first_message: first, next_before_event: before }, act) {
  const { answer, choose, chosen, earlier, pending } = act;
  const all = first ? [first, ...messages] : messages;
  const several = all.filter((message) => message.is_open).length > 1;
  const asked = new Map(all.filter((message) => message.kind === "question").map((message) => [message.message_id, message]));
  const item = (message) => {
    const settled = message.in_reply_to && (asked.get(message.in_reply_to) ?? { from_agent: message.to_agent, summary: "" });
    const pick = several && { choose, chosen: message.message_id === chosen };
    const open = message.is_open && { answer, pick, waiting: pending(message.message_id) };
    return said(message, { thread, people, painted: html?.[message.message_id], settled, ...open });
  };
  const button = () => h("button", { type: "button", onclick: earlier }, "Show earlier messages");
  return h(
    "ol.talk",
    { "aria-label": "Conversation", "data-key": "talk" },
    before !== null && first && item(first),
    before !== null && h("li.earlier", { "data-key": "earlier" }, button()),
    messages.map(item),
    pending() && waitingMessage(pending()),
  );
}

function waitingMessage(text) {
  const words = h("div.words", {}, h("p.plain", { dir: "auto" }, text), h("p.soft.small", {}, "Goes out in a moment"));
  return h("li.message.waiting", { "data-key": "waiting" }, h("span"), words);
}

function said(message, { thread, people, painted, settled, answer, pick, waiting }) {
  const human = people.has(message.from_agent);
  const slight = BY_THE_WAY.has(message.kind) && !message.body && !message.artifacts.length;
  return h(
    slight ? "li.message.slight" : "li.message",
    { "data-key": message.message_id, "data-kind": message.kind },
    face(message.from_agent, human),
    h(
      "div.words",
      {},
      h(
        "p.by",
        {},
        h("b", {}, message.from_agent),
        slight ? h("span.words-short", { dir: "auto" }, message.summary || silent(message)) : kind(message, thread.status),
        human && !message.verified && unverified(message),
        h("span.soft.small", {}, stamp(message.created_at, clock)),
      ),
      !slight && text(message, painted, thread.subject),
      settled && h("p.soft.small", {}, `Answers ${settled.from_agent}`, settled.summary && `: ${short(settled.summary)}`),
      answer && choices(message, answer),
      waiting && pendingNote(waiting),
      pick && chooser(message, pick),
    ),
  );
}

function kind(message, status) {
  const tone = message.kind === "result" ? { done: "good", failed: "bad" }[status] : TONES[message.kind];
  return [
    h("span.badge", { "data-tone": tone ?? "" }, KINDS[message.kind] ?? message.kind),
    h("span.soft.small", {}, `for ${message.to_agent}`),
    message.is_open && h("span.badge", { "data-tone": "warn" }, "open"),
  ];
}

const silent = (message) => ({ progress: "is working on it", event: "gave it back", control: "changed its course" })[message.kind] ?? "";

/** The mark of a message or a task in the name of a person whom no server checked. */
export function unverified(message) {
  const why = `It came in by ${DOORS[message.door] ?? message.door}, where anyone can use any name.`;
  return h("span.badge", { "data-tone": "warn", title: why }, "unverified");
}

function text(message, painted, subject) {
  const told = [message.body.trim(), message.body && message.kind === "task" ? subject : ""]; // already, above or below
  return [
    message.summary && !told.includes(message.summary.trim()) && h("p.summary", { dir: "auto" }, message.summary),
    message.body && (painted ? place(message) : h("p.plain", { dir: "auto" }, message.body)),
    message.artifacts.length > 0 && h("ul.artifacts", { "aria-label": "Artifacts" }, message.artifacts.map(artifact)),
    hasFacts(message) && h("details", {}, h("summary", {}, "Payload"), h("pre", { tabindex: "0" }, pretty(message.payload_json))),
  ];
}

const ASKED = new Set(["choices", "dangerous", "question"]); // shown as buttons and text

const hasFacts = ({ kind, payload_json: payload }) =>
  payload !== "{}" && (kind !== "question" || Object.keys(parsed(payload) ?? { text: payload }).some((name) => !ASKED.has(name)));

/** Where the rendered text of a message goes. It never changes, so it is drawn once, by `fillTexts`. */
const place = (message) =>
  h("div.told", { "data-key": `text ${message.message_id}`, "data-island": "", "data-message": message.message_id });

/** Draw the texts that are not drawn yet. `draw(id)` returns the element of a message. */
export function fillTexts(box, draw) {
  for (const empty of box.querySelectorAll(".told:empty")) empty.append(draw(empty.dataset.message));
}

function choices(message, answer) {
  const payload = parsed(message.payload_json);
  const list = (given) => (Array.isArray(given) ? given.filter((choice) => typeof choice === "string" && choice.trim()) : []);
  const [words, dangerous] = [list(payload?.choices), list(payload?.dangerous)];
  const act = (choice) => () => answer(choice, message.message_id, { dangerous });
  const button = (choice) => h(dangerous.includes(choice) ? "button.danger" : "button", { type: "button", onclick: act(choice) }, choice);
  return words.length > 0 && h("div.choices", { role: "group", "aria-label": "Choices" }, words.map(button));
}

/** With several open questions, the reply bar answers the one that is chosen here. */
function chooser(message, { choose, chosen }) {
  const act = () => choose(chosen ? null : message.message_id);
  return h(
    "p",
    {},
    h("button", { type: "button", "aria-pressed": String(chosen), onclick: act }, chosen ? "Answering this" : "Answer this"),
  );
}

const short = (text) => (text.length > 120 ? `${text.slice(0, 119)}…` : text);

function artifact({ path, kind: what }) {
  return h("li", {}, icon("file"), h("code", {}, path), what !== "file" && h("span.soft.small", {}, what));
}

function parsed(json) {
  try {
    return JSON.parse(json);
  } catch {
    return null;
  }
}

const pretty = (json) => JSON.stringify(parsed(json), null, 2) ?? json;
