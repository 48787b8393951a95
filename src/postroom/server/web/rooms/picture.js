// Draw the layout of swimlane.js as an SVG: one lane for each agent, the names beside it, and a legend.

import { h, svg } from "../lib/dom.js";
import { address } from "../lib/router.js";
import { clock, length } from "../lib/time.js";
import { ticks } from "./timescale.js";
import { face, many } from "./words.js";

const STATES = {
  pending: "Waiting",
  claimed: "Claimed",
  in_progress: "Working",
  blocked: "Blocked",
  answered: "Answered",
  lapsed: "Lease ran out",
};
const MARKS = { task: "Sent", question: "Question", answer: "Answer", done: "Done", failed: "Failed", cancelled: "Cancelled" };

const SIDE = 18; // pixels left and right of the time
const AXIS = 30;
const [OWN, ROW, PAD] = [24, 38, 9];
const THIN = new Set(["pending", "lapsed"]);
const HEIGHT = 13;
const NARROWEST = 3;
const LETTER = 6.1; // pixels that a letter of a label takes, about

// On a grid of 14, around its middle.
const SHAPES = {
  task: "M-2.4 0h4.6M.4-1.9 2.3 0 .4 1.9",
  question: "M-1.7-1.4A1.8 1.8 0 1 1 .1.6V1.3M.1 3v.2",
  answer: "M-1-2.6-3-.6-1 1.4M-2.7-.6H.6a2.2 2.2 0 0 1 2.2 2.2v.9",
  done: "M-2.7.2-.7 2.2 2.9-2",
  failed: "M-2-2l4 4M2-2l-4 4",
  cancelled: "M-2.6 2.6l5.2-5.2",
};

/** The picture. `names` has the threads by id. `current` is the key of the element that the Tab key reaches. */
export function picture({ scale, alive, now, lanes }, names, current, label) {
  const laid = raised(lanes);
  const height = laid.at(-1)?.bottom ?? AXIS;
  const context = { names, current: current ?? first(laid), spots: spots(laid) };
  return svg(
    "svg.swimlane",
    { width: scale.width + 2 * SIDE, height, role: "group", "aria-label": label },
    patterns(),
    svg(
      "g",
      { transform: `translate(${SIDE} 0)` },
      laid.map((lane) => svg("rect.band", { x: -SIDE, y: lane.top, width: scale.width + 2 * SIDE, height: lane.bottom - lane.top })),
      axis(scale, alive ? scale.place(now) : null, height),
      laid.map((lane) => links(lane, context)),
      laid.map((lane) => drawn(lane, context, scale.width)),
      alive && nowLine(scale.place(now), height),
    ),
  );
}

export const outside = 2 * SIDE;

/** The lanes with their vertical positions. */
function raised(lanes) {
  let top = AXIS;
  return lanes.map((lane) => {
    const own = lane.ownRows * OWN;
    const placed = { ...lane, top, rowsTop: top + PAD + own, bottom: top + 2 * PAD + own + Math.max(lane.rows, own ? 0 : 1) * ROW };
    top = placed.bottom;
    return placed;
  });
}

const ownMiddle = (lane, row) => lane.top + PAD + 9 + row * OWN;
const middle = (lane, row) => lane.rowsTop + row * ROW + 24;
const segmentKey = (segment) => `${segment.thread.thread_id} ${segment.lane} ${segment.from}`;
const markKey = (mark) => `${mark.kind} ${mark.thread_id} ${mark.at}`;

function first(laid) {
  const stay = laid.find((lane) => lane.stays.length)?.stays[0];
  return stay ? segmentKey(stay.segments[0]) : laid[0]?.own[0] && markKey(laid[0].own[0]);
}

/** The position of each thread, for the lines that lead to it. */
function spots(laid) {
  const found = new Map();
  for (const lane of laid) for (const stay of lane.stays) found.set(`${stay.thread.thread_id} ${lane.agent}`, middle(lane, stay.row));
  return found;
}

function patterns() {
  return svg(
    "defs",
    {},
    svg(
      "pattern",
      { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svg("rect.hatch-back", { width: 6, height: 6 }),
      svg("rect.hatch-line", { width: 2.4, height: 6 }),
    ),
    svg(
      "pattern",
      { id: "fold", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svg("rect.fold-line", { width: 1, height: 5 }),
    ),
  );
}

const upright = (x, y1, y2, attributes = {}) => svg("line", { x1: x, x2: x, y1, y2, ...attributes });

function axis(scale, now, height) {
  const folds = scale.pieces.filter(({ fold }) => fold);
  const free = (x) => (now === null || now - x > 44) && folds.every((fold) => x < fold.x - 26 || x > fold.x + fold.wide + 26);
  let before = new Date().toDateString(); // the date is said where it is another one
  return svg(
    "g.axis",
    { "aria-hidden": "true" },
    ticks(scale).map(({ at, x, step }) => {
      const date = new Date(at).toDateString();
      const words = named(at, step, date !== before);
      const half = words.length * 2.9 - SIDE;
      const room = free(x) && x > half - 24 && x < scale.width - half;
      if (room) before = date;
      return [upright(x, AXIS - 5, height), room && svg("text", { x: Math.max(x, half), y: 16, "text-anchor": "middle" }, words)];
    }),
    folds.map((fold) => [
      svg("rect.fold", { x: fold.x, y: AXIS - 5, width: fold.wide, height: height - AXIS + 5, fill: "url(#fold)" }),
      svg("text.fold-word", { x: fold.x + fold.wide / 2, y: 16, "text-anchor": "middle" }, brief(fold.to - fold.from)),
    ]),
  );
}

const SECONDS = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const MINUTES = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DATE = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

function named(at, step, anotherDay) {
  if (step >= 86_400_000) return DATE.format(at);
  const time = (step < 60_000 ? SECONDS : MINUTES).format(at);
  return anotherDay ? `${DATE.format(at)}, ${time}` : time;
}

function brief(span) {
  const [count, unit] = length(span).split(" ");
  return `${count} ${{ second: "s", minute: "min", hour: "h", day: "d" }[unit.replace(/s$/, "")]}`;
}

function nowLine(x, height) {
  return svg(
    "g.now",
    { "aria-hidden": "true" },
    upright(x, AXIS - 8, height),
    svg("text", { x: x + SIDE - 4, y: 16, "text-anchor": "end" }, "Now"),
  );
}

/** Thin lines from a message in its sender's lane to the thread that it belongs to. */
function links(lane, { spots: known }) {
  return lane.own
    .flatMap(({ of, row }) => of.map((mark) => ({ ...mark, from: ownMiddle(lane, row) })))
    .map((mark) => {
      const y = known.get(`${mark.thread_id} ${mark.on}`);
      const of = { class: "lead", "data-kind": mark.kind, "data-thread": mark.thread_id, "aria-hidden": "true" };
      return y && upright(mark.x, mark.from + (y > mark.from ? 7 : -7), y, of);
    });
}

function drawn(lane, context, width) {
  const labels = labelsOf(lane, width);
  return svg(
    "g.lane",
    { "data-key": lane.agent, role: "group", "aria-label": lane.agent },
    lane.own.map((mark) => markOf(mark, mark.x, ownMiddle(lane, mark.row), context)),
    lane.stays.map((stay) => {
      const y = middle(lane, stay.row);
      return [
        labels.get(stay),
        stay.segments.map((segment) => segmentOf(segment, y, context)),
        stay.marks.map((mark) => markOf({ ...mark, of: [mark] }, mark.x, y, context)),
      ];
    }),
  );
}

/** The labels of a lane, from left to right in each row, without overlaps. */
function labelsOf(lane, width) {
  const found = new Map();
  for (const row of Map.groupBy(lane.stays, (stay) => stay.row).values()) {
    let taken = -SIDE;
    for (const [at, stay] of row.entries()) {
      const label = labelOf(stay, middle(lane, stay.row) - 12, taken, (row[at + 1]?.x ?? width) - 6);
      taken = Math.max(taken, stay.until, label?.end ?? 0);
      found.set(stay, label?.element);
    }
  }
  return found;
}

/** The subject above its bar, cut to the free space: to the right if possible, otherwise to the left. */
function labelOf(stay, y, leftEdge, rightEdge) {
  const right = rightEdge - stay.x;
  const last = Math.min(stay.until, rightEdge + 6) - 5;
  const left = last - leftEdge - 6;
  const wanted = stay.thread.subject.length * LETTER;
  const back = right < wanted && left > right;
  const letters = Math.floor((back ? left : right) / LETTER);
  if (letters < 4) return null;
  const text = stay.thread.subject.length > letters ? `${stay.thread.subject.slice(0, letters - 1).trimEnd()}…` : stay.thread.subject;
  const place = { x: back ? last : stay.x, y, "text-anchor": back ? "end" : null };
  const element = svg("text.label", { ...place, "data-thread": stay.thread.thread_id, "aria-hidden": "true" }, text);
  return { element, end: back ? last : stay.x + text.length * LETTER };
}

function link(kind, key, thread, context, attributes, ...children) {
  const named = { href: address("threads", thread), "data-key": key, "data-thread": thread };
  return svg(`a.${kind}`, { ...named, tabindex: key === context.current ? "0" : "-1", ...attributes }, ...children);
}

function segmentOf(segment, y, context) {
  const { state, thread, x, until } = segment;
  const high = THIN.has(state) ? 6 : HEIGHT;
  const box = { x: x + 0.5, y: y - high / 2, width: Math.max(NARROWEST, until - x - 1), height: high, rx: Math.min(3, high / 2) };
  return link(
    "segment",
    segmentKey(segment),
    thread.thread_id,
    context,
    { "data-state": state, "data-tip": tipOf(segment) },
    svg("title", {}, `${thread.subject}\n${tipOf(segment)}`),
    svg("rect", { ...box, fill: state === "blocked" ? "url(#hatch)" : null }),
  );
}

function tipOf({ state, lane, from, to, open }) {
  const who = state === "pending" ? `for ${lane}` : lane;
  return `${STATES[state] ?? state} ${length(to - from)} · ${who}\n${clock(from)} – ${open ? "now" : clock(to)}`;
}

function markOf(mark, x, y, context) {
  const subject = context.names.get(mark.thread_id)?.subject ?? "";
  const several = mark.of.length > 1;
  const what = several ? `${many(mark.of.length, "thread")} · ${mark.by}` : `${mark.by}: ${mark.text || subject}`;
  const tip = `${what}\n${clock(mark.at)}`;
  const title = several ? mark.of.map((each) => context.names.get(each.thread_id)?.subject).join("\n") : subject;
  const attributes = { "data-kind": mark.kind, "data-tip": `${MARKS[mark.kind]}: ${tip}`, transform: `translate(${x} ${y})` };
  return link(
    "mark",
    markKey(mark),
    mark.thread_id,
    context,
    attributes,
    svg("title", {}, `${MARKS[mark.kind]}: ${title}\n${tip}`),
    shape(mark.kind),
    several && svg("text.times", { x: 10, y: 4 }, `×${mark.of.length}`),
  );
}

function shape(kind) {
  const around = kind === "failed" ? svg("rect", { x: -6, y: -6, width: 12, height: 12, rx: 2 }) : svg("circle", { r: 6.5 });
  return [around, svg("path", { d: SHAPES[kind] })];
}

/** The names beside the lanes, each as high as its lane. */
export function laneNames({ lanes }, people) {
  return h(
    "div.names",
    { "aria-hidden": "true" },
    raised(lanes).map((lane) => {
      const name = h(
        "div.lane-name",
        { "data-key": lane.agent, title: lane.agent },
        face(lane.agent, people.has(lane.agent)),
        h("span", {}, lane.agent),
      );
      name.style.height = `${lane.bottom - lane.top}px`;
      return name;
    }),
  );
}

/** The legend: only the states and marks that occur. */
export function legend({ lanes }) {
  const stays = lanes.flatMap((lane) => lane.stays);
  const states = new Set(stays.flatMap((stay) => stay.segments.map(({ state }) => state)));
  const kinds = new Set([...lanes.flatMap(({ own }) => own), ...stays.flatMap(({ marks }) => marks)].map(({ kind }) => kind));
  const sample = (key, word, ...inside) =>
    h("li", { "data-key": key }, svg("svg", { width: 24, height: 16, viewBox: "-12 -8 24 16", "aria-hidden": "true" }, inside), word);
  const bar = (state) => {
    const high = THIN.has(state) ? 6 : 12;
    const box = { x: -11, y: -high / 2, width: 22, height: high, rx: 3 };
    return svg("g.sample", { "data-state": state }, svg("rect", { ...box, fill: state === "blocked" ? "url(#hatch)" : null }));
  };
  const mark = (kind) => svg("g.sample", { "data-kind": kind }, shape(kind));
  return h(
    "ul.legend",
    { "aria-label": "Legend" },
    Object.entries(STATES)
      .filter(([state]) => states.has(state))
      .map(([state, word]) => sample(state, word, bar(state))),
    Object.entries(MARKS)
      .filter(([kind]) => kinds.has(kind))
      .map(([kind, word]) => sample(kind, word, mark(kind))),
  );
}
