// One row of the list: the title, the sender and the first words, the time, and the choices of an open question.

import { h } from "../lib/dom.js";
import { address } from "../lib/router.js";
import { draft, keptReplyTo, settings } from "../lib/settings.js";
import { full, left, short, when } from "../lib/time.js";
import { icon } from "../parts/icons.js";
import { approveName, keptNote, proposed } from "./question.js";

const [TWO_LINES, ONE_LINE, CHOICES, CHOICES_FOR_FINGERS] = [58, 36, 36, 52]; // pixels, as inbox.css and phone.css have them
const WIDE = matchMedia("(min-width: 721px)"); // on a phone a row is large enough for a finger
const SOON = 60 * 60_000; // milliseconds: a deadline that is marked
const STATES = { answered: "Answered", default: "Default taken", refused: "Refused by silence", ended: "Ended" };

/** Markdown as plain text on one line. Marks inside a word stay: they belong to an identifier. */
export function plain(markdown) {
  return markdown
    .slice(0, 600)
    .replace(/```.*$|^\s*\|.*$|^[|:\-\s]+$/gm, " ")
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/^[#>\-+\s]+|^\*\s+/gm, "")
    .replace(/(?<![\p{L}\p{N}_])(\*\*|__|~~|[*_`])(?=\S)|(?<=\S)(\*\*|__|~~|[*_`])(?![\p{L}\p{N}_])/gu, "")
    .replace(/`/g, "")
    .replace(/\s*\|\s*/g, " ")
    .replace(/\s+/g, " ")
    .trim();
}

/** The comments of an entry without their first line, if the title was made of it. */
function withoutTitle({ comments = "", title }) {
  const [first, ...others] = comments.trim().split("\n");
  return plain(first) === title ? others.join("\n") : comments;
}

/** What waits or was added last, and what is proposed; else the first words of an entry after its title, or the names of its documents. */
export function preview(entry) {
  const { state, proposal } = entry.question ?? {};
  const said = [entry.latest ?? withoutTitle(entry), state === "open" && proposal && proposed(proposal)];
  const words = said
    .map((text) => text && plain(text))
    .filter(Boolean)
    .join(" · ");
  return words || (entry.docs ?? []).map((doc) => doc.path.split("/").at(-1)).join(", ");
}

const MOST_CHOICES = 4; // in a row
const SHORT = 10; // characters of a choice that is shown as a whole
const UNVERIFIED_DOORS = new Set(["cli", "library", "file", "unix"]); // there, anyone can use any name

/** A mark for an entry of which no server knows who wrote it: a word, or in a row a picture. */
export function unverified(entry, { small = false } = {}) {
  if (!UNVERIFIED_DOORS.has(entry.door)) return null;
  const title = `It came in by ${entry.door}, where anyone can use any name.`;
  if (small) return h("span.unverified", { role: "img", "aria-label": "unverified", title: `Unverified. ${title}` }, icon("unverified"));
  return h("span.badge", { title }, "unverified");
}

/** The badge of a question: the time that is left, or how it ended. Where all rows are questions, only proposals say what they are. */
function badge({ question }, room) {
  if (!question || (room === "questions" && question.state === "open" && !question.deadline && !question.proposal)) return null;
  if (question.state !== "open") return h("span.badge", { "data-tone": "good" }, STATES[question.state] ?? question.state);
  if (!question.deadline || question.escalatedAt)
    return h("span.badge", { "data-tone": "warn" }, question.proposal ? "Proposal" : "Question");
  const span = when(question.deadline) - Date.now();
  const tone = span < SOON ? "bad" : "warn";
  return h(
    "span.badge.left",
    { "data-tone": tone, title: `Until ${full(when(question.deadline))}` },
    span > 0 ? `${left(span)} left` : "Overdue",
  );
}

function extras(entry) {
  const docs = entry.docs?.length ?? 0;
  const said = (entry.replies ?? 0) + (entry.parts ?? 0);
  return [
    draft(`entry:${entry.id}`).text && h("span.extra", { title: "You have not sent your reply" }, "Draft"),
    entry.pinned && h("span.extra", { title: "Pinned" }, icon("pin")),
    entry.state === "snoozed" && h("span.extra", { title: "Snoozed" }, icon("snooze")),
    docs ? h("span.extra", { title: `${docs} document${docs === 1 ? "" : "s"}` }, icon("file"), String(docs)) : null,
    said ? h("span.extra", { title: `${said} more in this conversation` }, icon("threads"), String(said)) : null,
  ];
}

/** Whether the choices of an open question, or those about its proposal, are shown in its row. */
export const asksInRow = ({ question }, room) =>
  room === "questions" && question?.state === "open" && Boolean(question.choices.length || question.proposal);

export const isWide = () => WIDE.matches;

/** The height of a row in pixels: of two lines or one, and of the choices below it. */
export function rowHeight(asks = false) {
  const choices = WIDE.matches ? CHOICES : CHOICES_FOR_FINGERS;
  return (settings().rows === "one" && WIDE.matches ? ONE_LINE : TWO_LINES) + (asks ? choices : 0);
}

/**
 * `act`: {remove(id), done(id), answer(entry, choice), decide(entry, type), openQuestion(entry)}. `query` is kept in the address. If the head
 * of its group says who wrote it, the row does not.
 */
export function row({ entry, cursor, open, room, selected, query, hit, named }, act) {
  const link = h(
    "a",
    { href: address(room, entry.id) + query, tabindex: cursor ? "0" : "-1", "aria-current": open ? "true" : null },
    h(
      "span.top",
      {},
      entry.readAt ? null : h("span.unread", { role: "img", "aria-label": "Unread" }),
      h("span.title", { dir: "auto" }, marked(entry.title, hit)),
      h("time", { datetime: new Date(entry.activeTs).toISOString(), title: full(entry.activeTs) }, short(entry.activeTs)),
    ),
    h(
      "span.second",
      {},
      !named && h("span.who", {}, entry.workspaceLabel),
      unverified(entry, { small: true }),
      h("span.words", { dir: "auto" }, marked(preview(entry), hit)),
      h("span.extras", {}, extras(entry)),
      badge(entry, room),
    ),
  );
  const attributes = {
    "data-id": entry.id,
    "data-read": String(Boolean(entry.readAt)),
    "data-cursor": cursor ? "" : null,
    "data-selected": selected ? "" : null,
  };
  return h("li.row", attributes, link, asksInRow(entry, room) && choices(entry, act), buttons(entry, act));
}

function choices(entry, act) {
  const kept = keptReplyTo(entry.question.entryId);
  if (kept) return h("span.row-choices.soft", {}, keptNote(kept.body));
  const { choices, dangerous, proposal } = entry.question;
  const button = (name, done, tag = "button") =>
    h(tag, { type: "button", tabindex: "-1", title: name, "data-short": name.length <= SHORT, onclick: done }, name);
  const choose = (choice) => button(choice, () => act.answer(entry, choice), dangerous.includes(choice) ? "button.danger" : "button");
  const decide = (name, type) => button(name, () => act.decide(entry, type));
  const open = (name) => button(name, () => act.openQuestion(entry));
  const about = () => [decide(approveName(entry.question), "approve"), open("Edit"), decide("Reject…", "reject")];
  const some = () =>
    choices.length > MOST_CHOICES ? [...choices.slice(0, 2).map(choose), open(`${choices.length - 2} more…`)] : choices.map(choose);
  return h("span.row-choices", { role: "group", "aria-label": "Choices" }, proposal ? about() : some());
}

function buttons(entry, act) {
  const button = (name, picture, done) =>
    h("button.icon-button", { type: "button", tabindex: "-1", "aria-label": name, title: name, onclick: done }, icon(picture));
  return h(
    "span.row-buttons",
    {},
    entry.state === "inbox" && entry.kind !== "notice" && button("Done", "check", () => act.done(entry.id)),
    button("Delete", "trash", () => act.remove(entry.id)),
  );
}

/** A text with the words of the search marked. */
function marked(text, hit) {
  if (!hit) return text;
  const parts = text.split(hit);
  return parts.map((part, at) => (at % 2 ? h("mark", {}, part) : part));
}

/** Update a row in place, so that it keeps the focus. */
export function patchRow(element, item, act) {
  const fresh = row(item, act);
  for (const name of ["data-read", "data-cursor", "data-selected"]) {
    if (fresh.hasAttribute(name)) element.setAttribute(name, fresh.getAttribute(name));
    else element.removeAttribute(name);
  }
  const [link, now] = [element.querySelector("a"), fresh.querySelector("a")];
  for (const name of ["tabindex", "aria-current", "href"]) {
    if (now.hasAttribute(name)) link.setAttribute(name, now.getAttribute(name));
    else link.removeAttribute(name);
  }
  link.replaceChildren(...now.childNodes);
  while (link.nextSibling) link.nextSibling.remove();
  element.append(...[...fresh.childNodes].slice(1));
}

/** A pattern that finds the words of a search, which are marked in the rows. */
export function hitPattern(words) {
  const terms = (words ?? "").split(/\s+/).filter((word) => word && !/^\w+:/.test(word));
  if (!terms.length) return null;
  const escaped = terms.map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`((?<![\\p{L}\\p{N}])(?:${escaped.join("|")})[\\p{L}\\p{N}]*)`, "giu");
}
