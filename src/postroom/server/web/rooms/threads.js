// The list of threads by status and run. With an id, that thread.

import { get } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { address } from "../lib/router.js";
import { nothing, tryThis } from "../parts/state.js";
import { moving, View } from "./keeping.js";
import { showThread } from "./thread.js";
import { forWhom, many, priorityBadge, runName, runPath, stamp, STATUSES, statusMark, word } from "./words.js";

const MOST = 500;
let chosen = "all"; // the filter, kept while the page is open

export const room = {
  title: "Threads",
  show: (main, id, house) => (id === null ? showThreads(main) : showThread(main, id, house)),
};

function showThreads(main) {
  const view = new View(main, {
    name: "threads",
    title: "Threads",
    ask,
    view: (data) => page(data, choose),
    concerns: (event) => event.event_type.startsWith("thread."),
  });
  function choose(status) {
    chosen = status;
    view.draw();
    if (view.data?.more) view.again(); // only the server has them all
  }
  return { changed: (events) => view.changed(events), keys: moving(view.box, "a.line"), leave: () => view.leave() };
}

/** The latest threads. A store with more of them is asked for those of the chosen status, and for the counts. */
async function ask(signal) {
  const latest = await get(`/api/threads?limit=${MOST}`, signal);
  if (!latest.more) return { ...latest, counts: countOf(latest.threads) };
  const [{ runs }, some] = await Promise.all([
    get(`/api/runs?limit=${MOST}`, signal),
    chosen === "all" ? latest : get(`/api/threads?status=${chosen}&limit=${MOST}`, signal),
  ]);
  return { threads: some.threads, more: true, counts: sumOf(runs) };
}

function countOf(threads) {
  const counts = Object.fromEntries(STATUSES.map((status) => [status, 0]));
  for (const { status } of threads) counts[status] += 1;
  return counts;
}

function sumOf(runs) {
  return Object.fromEntries(STATUSES.map((status) => [status, runs.reduce((sum, run) => sum + (run.by_status[status] ?? 0), 0)]));
}

function page({ threads, counts, more }, choose) {
  const shown = chosen === "all" ? threads : threads.filter((thread) => thread.status === chosen);
  const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
  if (!all) return [h("header", {}, h("h1", {}, "Threads")), none()];
  return [
    h("header", {}, h("h1", {}, "Threads")),
    filters(counts, all, choose),
    shown.length ? groups(shown) : empty(choose),
    more && shown.length >= MOST && h("p.soft.small.after", {}, `The latest ${MOST} are shown.`),
  ];
}

function none() {
  return nothing(
    "No threads yet",
    "A thread is a piece of work that one agent gives another. It appears here as soon as it is sent.",
    tryThis('inbox send --from me --to coder --subject "Fix the build"'),
  );
}

function empty(choose) {
  return nothing(
    `Nothing is ${word(chosen).toLowerCase()}`,
    "Other threads are.",
    h("button", { type: "button", onclick: () => choose("all") }, "Show all"),
  );
}

function filters(counts, all, choose) {
  const more = (status) => (status === "all" ? Object.values(counts) : [counts[status]]).some((count) => count >= MOST); // it counts no further
  const button = (status, name, count) => {
    const state = { "data-key": status, "data-none": count === 0, "aria-pressed": String(chosen === status) };
    return h(
      "button",
      { type: "button", ...state, onclick: () => choose(status) },
      name,
      h("span.count", {}, String(count), more(status) && "+"),
    );
  };
  return h(
    "div.filters",
    { role: "group", "aria-label": "Status" },
    button("all", "All", all),
    STATUSES.map((status) => button(status, word(status), counts[status])),
  );
}

/** Group by run, the most recently changed run first. */
function groups(threads) {
  const runs = new Map();
  for (const thread of threads) runs.set(thread.run_id, [...(runs.get(thread.run_id) ?? []), thread]);
  return h(
    "div.groups",
    {},
    [...runs].map(([run, members]) =>
      h(
        "section",
        { "data-key": `run ${run}`, "aria-label": runName(run) },
        h(
          "h2.group-head",
          {},
          h("a", { href: address("runs", runPath(run)) }, runName(run)),
          h("span.soft.small", {}, many(members.length, "thread")),
        ),
        h("ul.lines", {}, members.map(line)),
      ),
    ),
  );
}

function line(thread) {
  return h(
    "li",
    { "data-key": thread.thread_id },
    h(
      "a.line.thread-line",
      { href: address("threads", thread.thread_id) },
      statusMark(thread.status),
      h("span.subject", { dir: "auto" }, thread.subject),
      priorityBadge(thread.priority),
      forWhom(thread.created_by, thread.assigned_to),
      stamp(thread.updated_at),
    ),
  );
}
