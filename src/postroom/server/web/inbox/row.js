// One row of the list: the sender, the time, and the first words.

import { h } from "../lib/dom.js";
import { address } from "../lib/router.js";
import { full, short } from "../lib/time.js";
import { icon } from "../parts/icons.js";

export const ROW = 74; // pixels, as inbox.css has it
const STATES = { answered: "Answered", default: "Answered by silence", refused: "Refused by silence", ended: "Ended" };

/** Markdown as plain text on one line. */
export function plain(markdown) {
  return markdown
    .slice(0, 600)
    .replace(/```.*$|^[|:\-\s]+$/gm, " ")
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/^[#>\-*+\s]+/gm, "")
    .replace(/[*_`~|]+/g, "")
    .replace(/\s+/g, " ")
    .trim();
}

/** The first words of an entry, or the names of its documents. */
export function preview(entry) {
  return plain(entry.comments ?? "") || (entry.docs ?? []).map((doc) => doc.path.split("/").at(-1)).join(", ");
}

const UNVERIFIED_DOORS = new Set(["cli", "library", "file", "unix"]); // there, anyone can use any name

/** A mark for an entry of which no server knows who wrote it. */
export function unverified(entry) {
  if (!UNVERIFIED_DOORS.has(entry.door)) return null;
  return h("span.badge", { title: `It came in by ${entry.door}, where anyone can use any name.` }, "unverified");
}

function badge(entry) {
  if (entry.question?.state === "open") return h("span.badge", { "data-tone": "warn" }, "Question");
  if (entry.question) return h("span.badge", { "data-tone": "good" }, STATES[entry.question.state] ?? entry.question.state);
  return null;
}

function extras(entry) {
  const docs = entry.docs?.length ?? 0;
  return [
    docs ? h("span.extra", { title: `${docs} document${docs === 1 ? "" : "s"}` }, icon("file"), String(docs)) : null,
    entry.replies
      ? h("span.extra", { title: `${entry.replies} ${entry.replies === 1 ? "reply" : "replies"}` }, icon("threads"), String(entry.replies))
      : null,
  ];
}

export function row({ entry, cursor, open, room }, remove) {
  const link = h(
    "a",
    { href: address(room, entry.id), tabindex: cursor ? "0" : "-1", "aria-current": open ? "true" : null },
    h(
      "span.top",
      {},
      entry.readAt ? null : h("span.unread", { role: "img", "aria-label": "Unread" }),
      h("span.who", {}, entry.workspaceLabel),
      badge(entry),
      unverified(entry),
      h("span.extras", {}, extras(entry)),
      h("time", { datetime: new Date(entry.ts).toISOString(), title: full(entry.ts) }, short(entry.ts)),
    ),
    h("span.words", {}, preview(entry)),
  );
  const attributes = { "data-id": entry.id, "data-read": String(Boolean(entry.readAt)), "data-cursor": cursor ? "" : null };
  return h(
    "li.row",
    attributes,
    link,
    h("button.icon-button", { type: "button", tabindex: "-1", "aria-label": "Delete", onclick: () => remove(entry.id) }, icon("trash")),
  );
}

/** Update a row in place, so that it keeps the focus. */
export function patchRow(element, item, remove) {
  const fresh = row(item, remove);
  for (const name of ["data-read", "data-cursor"]) {
    if (fresh.hasAttribute(name)) element.setAttribute(name, fresh.getAttribute(name));
    else element.removeAttribute(name);
  }
  const [link, now] = [element.querySelector("a"), fresh.querySelector("a")];
  for (const name of ["tabindex", "aria-current"]) {
    if (now.hasAttribute(name)) link.setAttribute(name, now.getAttribute(name));
    else link.removeAttribute(name);
  }
  link.replaceChildren(...now.childNodes);
}
