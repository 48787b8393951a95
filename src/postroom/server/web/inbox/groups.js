// The groups of the list: by deadline, by day or by workspace. Groups of workspaces fold, and stay so for the session of this browser.

import { fill, h } from "../lib/dom.js";
import { settings } from "../lib/settings.js";
import { day } from "../lib/time.js";
import { icon } from "../parts/icons.js";
import { asksInRow, isWide, rowHeight } from "./row.js";

export const HEAD = 34; // pixels
const HEAD_FOR_FINGERS = 44;
const KEY = "postroom.folded";
const folded = new Set(load());

function load() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY)) ?? [];
  } catch {
    return [];
  }
}

/** Fold or unfold a group of a room. */
export function toggleFold(key) {
  if (!folded.delete(key)) folded.add(key);
  try {
    sessionStorage.setItem(KEY, JSON.stringify([...folded]));
  } catch {
    // in private windows and on full disks, it is kept until the page closes
  }
}

/** The group of an entry: a deadline, the pinned ones, a workspace, or a day. */
function nameOf(room) {
  if (room === "questions") return (entry) => (entry.question?.deadline ? "With a deadline" : "Without a deadline");
  const name = settings().group === "workspace" ? (entry) => entry.workspaceLabel : (entry) => day(entry.activeTs);
  return (entry) => (entry.pinned && entry.state === "inbox" && room === "inbox" ? "Pinned" : name(entry));
}

/**
 * The heads and rows of some entries. Days are in order, workspaces are ordered by their newest entry. Workspaces fold, unless a search is
 * shown: what it found is not hidden. Rows of a folded group are `hidden`. If there are `more` entries, a group may have more, too.
 */
export function grouped(entries, { room, searches, more }) {
  const byWorkspace = settings().group === "workspace" && room !== "questions";
  const folds = byWorkspace && !searches;
  const name = nameOf(room);
  const groups = new Map();
  for (const entry of entries) {
    const of = name(entry);
    if (!groups.has(of)) groups.set(of, []);
    groups.get(of).push(entry);
  }
  return [...groups].flatMap(([of, some]) => {
    const key = `group ${room} ${of}`;
    const isFolded = folds && folded.has(key);
    const unread = some.filter((entry) => !entry.readAt).length;
    const counts = folds && { count: `${some.length}${more ? "+" : ""}`, unread, folded: isFolded };
    return [
      { key, height: folds && !isWide() ? HEAD_FOR_FINGERS : HEAD, name: of, folds, ...counts },
      ...some.map((entry) => ({
        key: entry.id,
        height: rowHeight(asksInRow(entry, room)),
        entry,
        group: key,
        hidden: isFolded,
        named: byWorkspace && of === entry.workspaceLabel,
      })),
    ];
  });
}

/** The words of a head: the name of the group, and if it folds, how many entries and how many unread ones are in it. */
export function headWords({ name, folds, count, unread }) {
  if (!folds) return [name];
  const fresh = unread ? h("span.fresh", {}, `${unread} unread`) : null;
  return [icon("down"), h("span.name", {}, name), " ", h("span.count", {}, count), " ", fresh];
}

/** The head of a group. `toggle` folds it. */
export function head(item, toggle) {
  const element = h("li.group", {}, h("h3"));
  patchHead(element, item, toggle);
  return element;
}

/** Update a head in place, so that it keeps the focus. */
export function patchHead(element, item, toggle) {
  const [title] = element.children;
  element.toggleAttribute("data-folds", item.folds);
  if (!item.folds) return fill(title, headWords(item));
  if (!title.querySelector("button")) fill(title, h("button.link", { type: "button", onclick: () => toggle(item.key) }));
  const [button] = title.children;
  button.ariaExpanded = String(!item.folded);
  return fill(button, headWords(item));
}
