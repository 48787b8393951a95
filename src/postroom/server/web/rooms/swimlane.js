// A run as lanes: what happened becomes segments and marks, with their places. Pure: no element is made here, so it can be read alone.
//
//   lanes     one for each agent, in the order in which they appear; a lane has rows, because one agent can have several threads at once
//   segments  a state of a thread, from when to when, in the lane of whoever has it: pending, claimed, in_progress, blocked,
//             answered (blocked still, but whoever holds it can go on), lapsed (the lease ran out: anyone may take it)
//   marks     an instant: a task that was sent, a question, an answer, and how a thread ended (done, failed, cancelled)

import { FOLDABLE, timescale } from "./timescale.js";

const ENDS = new Set(["done", "failed", "cancelled"]);
const WORKING = new Set(["claimed", "in_progress", "answered"]);
const CLOSE = 15; // marks of one kind that are nearer than this are one mark
const COUNTED = 18; // pixels that the number beside such a mark takes
const APART = 11; // pixels between two stays in one row

/** Everything that is to be drawn, for a width in pixels. `run` is what GET /api/runs/{run} answers. */
export function layout(run, now, width) {
  const stories = tell(run, now);
  const alive = run.threads.some((thread) => !ENDS.has(thread.status));
  const instants = stories.flatMap(({ segments, marks }) => [
    ...segments.flatMap(({ from, to }) => [from, to]),
    ...marks.map(({ at }) => at),
  ]);
  const from = Math.min(now, ...instants);
  const to = alive ? now : Math.max(from, ...instants);
  const scale = timescale(from, to, width, idle(stories, instants));
  return { scale, alive, now, stories, lanes: lanes(stories, scale) };
}

// The story of each thread: its segments and marks, in time.

export function tell({ threads, events }, now) {
  const byThread = Map.groupBy(events, (event) => event.thread_id);
  return threads.map((thread) => story(thread, byThread.get(thread.thread_id) ?? [], now)).sort((a, b) => a.begins - b.begins);
}

function story(thread, events, now) {
  const told = { thread, segments: [], marks: [] };
  let open = null; // the segment that is not over
  const close = (at) => {
    if (open && at > open.from) told.segments.push({ ...open, to: at, open: false }); // what took no time is not seen
    open = null;
  };
  for (const event of events) {
    const at = Date.parse(event.at);
    const lane = laneAfter(event, open?.lane) ?? thread.assigned_to;
    const state = event.source === lane && event.type === "thread.replied" ? (open?.state ?? event.status) : stateAfter(event, open?.state);
    told.marks.push(...marksOf(event, at, lane, open));
    if (open?.state === state && open.lane === lane) continue;
    close(at);
    if (!ENDS.has(state)) open = { thread, state, lane, from: at };
  }
  if (!events.length && !ENDS.has(thread.status)) open = asItStands(thread);
  told.segments.push(...stillOpen(open, thread.lease, now));
  told.begins = told.segments[0]?.from ?? told.marks[0]?.at ?? now;
  return told;
}

/** All that is left to say when what happened is too long ago. */
const asItStands = (thread) => ({ thread, state: thread.status, lane: thread.assigned_to, from: Date.parse(thread.updated_at) });

function stateAfter(event, before) {
  if (event.type === "thread.replied" && (before === "blocked" || before === "answered")) return "answered";
  if (event.status) return event.status;
  return { "thread.created": "pending", "thread.claimed": "claimed", "thread.released": "pending" }[event.type] ?? before ?? "pending";
}

/** Who has the thread now: whoever claimed it or works on it; while it waits, whom it waits for. */
function laneAfter(event, before) {
  if (event.type === "thread.claimed" || event.type === "thread.updated") return event.source;
  if (event.type === "thread.created" || event.type === "thread.released") return event.to ?? before;
  return before ?? (event.type === "thread.replied" ? event.to : event.source);
}

function marksOf(event, at, lane, open) {
  const mark = (kind, where) => ({ kind, at, lane: where, on: lane, thread_id: event.thread_id, text: event.summary, by: event.source });
  if (event.type === "thread.created") return [mark("task", event.source)];
  if (event.type === "thread.updated" && event.status === "blocked") return [mark("question", lane)];
  if (event.type === "thread.replied" && event.source !== lane) return [mark("answer", event.source)];
  if (ENDS.has(event.status) && event.type !== "thread.replied") return [mark(event.status, open?.lane ?? lane)];
  return [];
}

/** What goes on still. A lease that ran out is told apart: the thread may be taken by anyone. */
function stillOpen(open, lease, now) {
  if (!open) return [];
  const lapse = lease && open.state !== "blocked" ? Date.parse(lease.expires_at) : Infinity;
  if (lapse >= now) return [{ ...open, to: now, open: true }];
  const over = Math.max(open.from, lapse);
  return [
    { ...open, to: over, open: false },
    { ...open, state: "lapsed", from: over, to: now, open: true },
  ];
}

/** Between two instants of interest, the stretches in which nobody works: [from, to]. None if nobody ever worked. */
function idle(stories, instants) {
  const work = stories.flatMap(({ segments }) => segments.filter(({ state, from, to }) => WORKING.has(state) && to > from));
  if (!work.length) return [];
  const sorted = [...new Set(instants)].sort((a, b) => a - b);
  const gaps = sorted.slice(1).map((to, at) => [sorted[at], to]);
  return gaps
    .filter(([from, to]) => to - from >= FOLDABLE)
    .filter(([from, to]) => !work.some((segment) => segment.from < to && segment.to > from));
}

// From stories to lanes: who is where, at which x, in which row.

function lanes(stories, scale) {
  const found = new Map();
  const lane = (agent) => found.get(agent) ?? found.set(agent, { agent, stays: [], own: [], first: Infinity }).get(agent);
  const seen = (agent, at) => (lane(agent).first = Math.min(lane(agent).first, at));
  for (const { thread, segments, marks } of stories) {
    for (const stay of stays(thread, segments)) {
      seen(stay.agent, stay.segments[0].from);
      lane(stay.agent).stays.push(placed(stay, marks, scale));
    }
    for (const mark of marks.filter(({ kind }) => kind === "task" || kind === "answer")) {
      seen(mark.lane, mark.at);
      lane(mark.lane).own.push({ ...mark, x: scale.place(mark.at) });
    }
  }
  const sorted = [...found.values()].sort((a, b) => a.first - b.first || b.own.length - a.own.length);
  return sorted.map(({ agent, stays: all, own }) => ({ agent, ...ownMarks(own), ...stacked(all) }));
}

/** A stay: a thread's segments in one lane, without a break. */
function stays(thread, segments) {
  const found = [];
  for (const segment of segments) {
    const last = found.at(-1);
    if (last?.agent === segment.lane) last.segments.push(segment);
    else found.push({ thread, agent: segment.lane, segments: [segment] });
  }
  return found;
}

function placed(stay, marks, scale) {
  const [begin, end] = [stay.segments[0].from, stay.segments.at(-1).to];
  const here = marks.filter(
    ({ kind, lane, at }) => kind !== "task" && kind !== "answer" && lane === stay.agent && at >= begin && at <= end,
  );
  const x = scale.place(begin);
  return {
    ...stay,
    x,
    until: Math.max(x + 8, scale.place(end)),
    segments: stay.segments.map((segment) => ({ ...segment, x: scale.place(segment.from), until: scale.place(segment.to) })),
    marks: here.map((mark) => ({ ...mark, x: scale.place(mark.at) })),
  };
}

/** Rows from the top, each stay in the first one that is free. */
function stacked(all) {
  const ends = [];
  const sorted = [...all].sort((a, b) => a.x - b.x || a.until - b.until);
  const rows = sorted.map((stay) => {
    const free = ends.findIndex((end) => end + APART <= stay.x);
    const row = free < 0 ? ends.length : free;
    ends[row] = stay.until;
    return { ...stay, row };
  });
  return { stays: rows, rows: ends.length };
}

/** Marks that would lie on each other are one, of several threads. */
function merged(marks) {
  const groups = [];
  for (const mark of [...marks].sort((a, b) => a.kind.localeCompare(b.kind) || a.at - b.at)) {
    const last = groups.at(-1);
    if (last && last.kind === mark.kind && mark.x - last.x < CLOSE + (last.of.length > 1 ? COUNTED : 0)) last.of.push(mark);
    else groups.push({ ...mark, of: [mark] });
  }
  return groups;
}

/** What somebody did in their own lane, in as many rows as it takes. */
function ownMarks(marks) {
  const ends = [];
  const sorted = merged(marks).sort((a, b) => a.x - b.x);
  const own = sorted.map((mark) => {
    const free = ends.findIndex((end) => end <= mark.x);
    const row = free < 0 ? ends.length : free;
    ends[row] = mark.x + CLOSE + (mark.of.length > 1 ? COUNTED : 0);
    return { ...mark, row };
  });
  return { own, ownRows: ends.length };
}

/** The same facts in numbers, for the table: how long each thread waited, was worked on, was blocked. */
export function facts({ thread, segments, marks }) {
  const sum = (...states) => segments.filter(({ state }) => states.includes(state)).reduce((all, { from, to }) => all + to - from, 0);
  const end = marks.find(({ kind }) => ENDS.has(kind));
  return {
    thread,
    workers: [...new Set(segments.filter(({ state }) => state !== "pending").map(({ lane }) => lane))],
    waited: sum("pending", "lapsed"),
    worked: sum("claimed", "in_progress", "answered"),
    blocked: sum("blocked"),
    questions: marks.filter(({ kind }) => kind === "question").length,
    answers: marks.filter(({ kind }) => kind === "answer").length,
    began: marks.find(({ kind }) => kind === "task")?.at ?? Date.parse(thread.created_at),
    ended: end ? end.at : null,
  };
}
