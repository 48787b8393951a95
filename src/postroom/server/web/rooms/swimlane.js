// The layout of a run as lanes: events become segments and marks with positions. Pure: no element is made here.
//
//   lanes     one for each agent, in the order in which they appear; a lane has rows, because one agent can have several threads at once
//   segments  a state of a thread from one instant to another, in the lane of its holder: pending, claimed, in_progress, blocked,
//             answered (still blocked, but its holder can go on), lapsed (the lease ran out: any worker may take it)
//   marks     an instant: a task that was sent, a question, an answer, and how a thread ended (done, failed, cancelled)

import { FOLDABLE, timescale } from "./timescale.js";

const ENDS = new Set(["done", "failed", "cancelled"]);
const WORKING = new Set(["claimed", "in_progress", "answered"]);
const CLOSE = 15; // marks of one kind that are nearer than this are one mark
const COUNTED = 18; // pixels that the number beside such a mark takes
const APART = 11; // pixels between two stays in one row

/** The whole layout for a width in pixels. `run` is the response of GET /api/runs/{run}. */
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

// The segments and marks of each thread, in time order.

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

/** The state of a thread whose events are older than those in the response. */
const asItStands = (thread) => ({ thread, state: thread.status, lane: thread.assigned_to, from: Date.parse(thread.updated_at) });

function stateAfter(event, before) {
  if (event.type === "thread.replied" && (before === "blocked" || before === "answered")) return "answered";
  if (event.status) return event.status;
  return { "thread.created": "pending", "thread.claimed": "claimed", "thread.released": "pending" }[event.type] ?? before ?? "pending";
}

/** The agent that has the thread at an event: its holder, or its assignee while it is pending. */
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

/** The last segment of a thread that has not ended. A lapsed lease is a segment of its own. */
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

/** The stretches [from, to] in which no agent works. Empty if no agent ever worked. */
function idle(stories, instants) {
  const work = stories.flatMap(({ segments }) => segments.filter(({ state, from, to }) => WORKING.has(state) && to > from));
  if (!work.length) return [];
  const sorted = [...new Set(instants)].sort((a, b) => a - b);
  const gaps = sorted.slice(1).map((to, at) => [sorted[at], to]);
  return gaps
    .filter(([from, to]) => to - from >= FOLDABLE)
    .filter(([from, to]) => !work.some((segment) => segment.from < to && segment.to > from));
}

// From threads to lanes: the lane, the x position and the row of each segment.

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

/** A stay: the consecutive segments of a thread in one lane. */
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

/** Assign each stay to the first free row from the top. */
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

/** Merge marks that would overlap into one mark of several threads. */
function merged(marks) {
  const groups = [];
  for (const mark of [...marks].sort((a, b) => a.kind.localeCompare(b.kind) || a.at - b.at)) {
    const last = groups.at(-1);
    if (last && last.kind === mark.kind && mark.x - last.x < CLOSE + (last.of.length > 1 ? COUNTED : 0)) last.of.push(mark);
    else groups.push({ ...mark, of: [mark] });
  }
  return groups;
}

/** Assign the marks of an agent's own lane to as many rows as needed. */
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

/** The numbers for the table: the seconds that each thread waited, was worked on and was blocked. */
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
