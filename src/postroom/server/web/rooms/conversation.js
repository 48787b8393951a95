// What was said in a thread. Work and questions are blocks; what only moves it along is a line.

import { h, safe } from "../lib/dom.js";
import { clock } from "../lib/time.js";
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
 * `answer(choice)` is how a question that names its choices is answered, while it is open. `earlier()` loads the messages between the
 * first one and those that are shown.
 */
export function conversation({ thread, messages, html, people, first_message: first, next_before_event: before }, answer, earlier) {
  const open = thread.status === "blocked" && messages.at(-1)?.kind === "question" ? messages.at(-1) : null;
  const item = (message) =>
    said(message, { thread, people, painted: html?.[message.message_id], answer: message === open ? answer : null });
  const button = () => h("button", { type: "button", onclick: earlier }, "Show earlier messages");
  return h(
    "ol.talk",
    { "aria-label": "Conversation", "data-key": "talk" },
    before !== null && first && item(first),
    before !== null && h("li.earlier", { "data-key": "earlier" }, button()),
    messages.map(item),
  );
}

function said(message, { thread, people, painted, answer }) {
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
        slight ? h("span.words-short", {}, message.summary || silent(message)) : kind(message, thread.status),
        human && !message.verified && unverified(message),
        h("span.soft.small", {}, stamp(message.created_at, clock)),
      ),
      !slight && text(message, painted, thread.subject),
      answer && choices(message, answer),
    ),
  );
}

function kind(message, status) {
  const tone = message.kind === "result" ? { done: "good", failed: "bad" }[status] : TONES[message.kind];
  return [
    h("span.badge", { "data-tone": tone ?? "" }, KINDS[message.kind] ?? message.kind),
    h("span.soft.small", {}, `for ${message.to_agent}`),
  ];
}

const silent = (message) => ({ progress: "is working on it", event: "gave it back", control: "changed its course" })[message.kind] ?? "";

function unverified(message) {
  const why = `It came in by ${DOORS[message.door] ?? message.door}, where anyone can use any name.`;
  return h("span.badge", { "data-tone": "warn", title: why }, "unverified");
}

function text(message, painted, subject) {
  const told = [message.body.trim(), message.body && message.kind === "task" ? subject : ""]; // already, above or below
  return [
    message.summary && !told.includes(message.summary.trim()) && h("p.summary", {}, message.summary),
    message.body && (painted ? safe("div.markdown", painted) : h("p.plain", {}, message.body)),
    message.artifacts.length > 0 && h("ul.artifacts", { "aria-label": "Artifacts" }, message.artifacts.map(artifact)),
    message.payload_json !== "{}" &&
      h("details", {}, h("summary", {}, "Payload"), h("pre", { tabindex: "0" }, pretty(message.payload_json))),
  ];
}

function choices(message, answer) {
  const given = parsed(message.payload_json)?.choices;
  const words = Array.isArray(given) ? given.filter((choice) => typeof choice === "string" && choice.trim()) : [];
  const button = (choice) => h("button", { type: "button", onclick: () => answer(choice) }, choice);
  return words.length > 0 && h("div.choices", { role: "group", "aria-label": "Choices" }, words.map(button));
}

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
