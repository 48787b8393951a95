// The labels and icons that rooms share: statuses, names, times.

import { h, svg } from "../lib/dom.js";
import { full, short, when } from "../lib/time.js";
import { parts } from "../parts/chart.js";

export const STATUSES = ["pending", "claimed", "in_progress", "blocked", "done", "failed", "cancelled"];
export const ENDED = new Set(["done", "failed", "cancelled"]);

const WORDS = { in_progress: "In progress" }; // the others are words as they are
const TONES = {
  claimed: "accent",
  in_progress: "accent",
  accepted: "accent",
  blocked: "warn",
  done: "good",
  completed: "good",
  failed: "bad",
};

// On a grid of 14. Each has its own shape, so that colour is not the only difference.
const SHAPES = {
  pending: "",
  claimed: "M7 5.6v2.8M5.6 7h2.8",
  accepted: "M7 5.6v2.8M5.6 7h2.8",
  completed: "M4.3 7.2 6.3 9.2 9.9 5",
  in_progress: "M7 3.5a3.5 3.5 0 0 1 0 7z",
  blocked: "M7 3.8v3.6M7 9.9v.3",
  done: "M4.3 7.2 6.3 9.2 9.9 5",
  failed: "M5 5l4 4M9 5l-4 4",
  cancelled: "M4.5 9.5l5-5",
};

export const word = (status) => WORDS[status] ?? status[0].toUpperCase() + status.slice(1);

/** A status as an icon, for a place that also shows its name. */
export function glyph(status) {
  return svg(
    "svg.glyph",
    { viewBox: "0 0 14 14", width: 14, height: 14, "data-status": status, "aria-hidden": "true", focusable: "false" },
    svg("circle", { cx: 7, cy: 7, r: 5.6 }),
    svg("path", { d: SHAPES[status] ?? "" }),
  );
}

/** A status as an icon whose name is its tooltip, and read to those who do not see it. */
export function statusMark(status) {
  return h("span.status", { title: word(status), "data-status": status }, glyph(status), h("span.unseen", {}, word(status)));
}

export function statusBadge(status) {
  return h("span.badge", { "data-tone": TONES[status] ?? "", "data-status": status }, word(status));
}

export function priorityBadge(priority) {
  if (priority === "normal") return null;
  return h("span.badge", { "data-tone": priority === "low" ? "" : "warn" }, word(priority), " priority");
}

/** The sender and the addressee. */
export function forWhom(from, to) {
  return h("span.who", {}, from, h("span", { "aria-hidden": "true" }, " → "), h("span.unseen", {}, " for "), to);
}

/** A time in a short form, with the full time as its tooltip. */
export function stamp(at, say = short) {
  const instant = when(at);
  if (Number.isNaN(instant)) return h("span", {}, "–");
  return h("time", { datetime: new Date(instant).toISOString(), title: full(instant) }, say(instant));
}

/** The initials of a name: round for people, square for agents. */
export function face(name, human = false) {
  return h("span.face", { "data-kind": human ? "human" : "agent", "aria-hidden": "true" }, [...name][0]?.toUpperCase() ?? "?");
}

/** A name and its value, for a dl. */
export const fact = (name, ...value) => h("div", { "data-key": name }, h("dt", {}, name), h("dd", {}, ...value));

/** The head of a table. Columns whose name begins with # hold numbers. */
export function heads(...names) {
  const head = (name) => (name.startsWith("#") ? h("th.number", { scope: "col" }, name.slice(1)) : h("th", { scope: "col" }, name));
  return h("thead", {}, h("tr", {}, names.map(head)));
}

export const many = (number, one, more = `${one}s`) => `${number} ${number === 1 ? one : more}`;

/** The name of a run. The run without a name holds the threads that belong to no run. */
export const runName = (run) => run || "No run";
export const runPath = (run) => run || "~";

/** The number of threads in each status, as one bar. */
export function byStatus(counts) {
  const some = STATUSES.filter((status) => counts[status]).map((status) => [status, counts[status]]);
  return h("span.by-status", {}, parts(some, "By status", { width: 120, height: 8 }));
}
