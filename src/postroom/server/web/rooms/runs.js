// The list of runs, which are groups of threads. With an id, that run as a picture.

import { get } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { address } from "../lib/router.js";
import { ago, length, when } from "../lib/time.js";
import { nothing, tryThis } from "../parts/state.js";
import { moving, View } from "./keeping.js";
import { showRun } from "./run.js";
import { byStatus, ENDED, many, runName, runPath, stamp, STATUSES } from "./words.js";

export const room = {
  title: "Runs",
  show: (main, id) => (id === null ? showRuns(main) : showRun(main, id)),
};

function showRuns(main) {
  const view = new View(main, {
    name: "runs",
    title: "Runs",
    ask: (signal) => get("/api/runs?limit=100", signal),
    view: ({ runs }) => [
      h("header", {}, h("h1", {}, "Runs")),
      runs.length ? h("ul.lines", { "aria-label": "Runs" }, runs.map(line)) : none(),
    ],
    concerns: (event) => event.event_type.startsWith("thread."),
  });
  return { changed: (events) => view.changed(events), keys: moving(view.box, "a.line"), leave: () => view.leave() };
}

function none() {
  return nothing(
    "No runs yet",
    "Threads that are sent with the same run belong together, and are shown here as a picture over time.",
    tryThis('inbox send --run nightly --from me --to coder --subject "Fix the build"'),
  );
}

function line(run) {
  const open = STATUSES.filter((status) => !ENDED.has(status)).reduce((sum, status) => sum + (run.by_status[status] ?? 0), 0);
  const took = when(run.last_at) - when(run.first_at);
  return h(
    "li",
    { "data-key": `run ${run.run_id}` },
    h(
      "a.line.run-line",
      { href: address("runs", runPath(run.run_id)) },
      h("span.subject", {}, runName(run.run_id)),
      h("span.soft.small.of", {}, `${run.partial ? "more than " : ""}${many(run.threads, "thread")}${open ? `, ${open} open` : ""}`),
      byStatus(run.by_status),
      h("span.soft.small.crew", { title: run.agents.join(", ") }, crew(run.agents)),
      h("span.soft.small.took", {}, took >= 1000 ? length(took) : ""),
      h("span.soft.small.last", {}, stamp(run.last_at, ago)),
    ),
  );
}

const crew = (agents) => (agents.length > 3 ? `${agents.slice(0, 2).join(", ")} and ${agents.length - 2} more` : agents.join(", "));
