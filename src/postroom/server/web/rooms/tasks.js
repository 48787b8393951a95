// The list of tasks by status: who gave whom what. With an id, that task. Results are shown with their task.

import { get } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { address } from "../lib/router.js";
import { nothing, tryThis } from "../parts/state.js";
import { failed } from "../parts/toast.js";
import { moving, View } from "./keeping.js";
import { showTask } from "./task.js";
import { forWhom, priorityBadge, stamp, statusMark, word } from "./words.js";

const PAGE = 200;
const STATUSES = ["all", "pending", "accepted", "completed", "failed"];
let chosen = "all"; // the filter, kept while the page is open

export const room = {
  title: "Tasks",
  show: (main, id, house) => (id === null ? showTasks(main) : showTask(main, id, house)),
};

function showTasks(main) {
  const view = new View(main, {
    name: "tasks",
    title: "Tasks",
    ask: (signal) => ask(signal),
    view: (data) => page(data, { choose, earlier }),
    concerns: (event) => event.event_type.startsWith("task."),
  });
  function choose(status) {
    chosen = status;
    view.draw();
    view.again();
  }
  async function earlier() {
    try {
      const more = await ask(view.control.signal, view.data.next_before_event);
      view.data = { ...more, tasks: [...view.data.tasks, ...more.tasks] };
    } catch (error) {
      if (!view.control.signal.aborted) failed("The earlier tasks could not be loaded.", error);
    }
    view.draw();
  }
  return { changed: (events) => view.changed(events), keys: moving(view.box, "a.line"), leave: () => view.leave() };
}

async function ask(signal, before = null) {
  const status = chosen === "all" ? "" : `&status=${chosen}`;
  const cursor = before === null ? "" : `&before_event=${before}`;
  return { ...(await get(`/api/tasks?limit=${PAGE}${status}${cursor}`, signal)), status: chosen };
}

function page({ tasks, more, status }, { choose, earlier }) {
  const shown = tasks.filter((task) => task.kind === "task" && (chosen === "all" || task.status === chosen));
  const title = h("header", {}, h("h1", {}, "Tasks"));
  if (!tasks.length && status === "all" && chosen === "all") return [title, none()];
  return [
    title,
    filters(choose),
    shown.length ? h("ul.lines", {}, shown.map(line)) : !more && nothing("Nothing here", "No task has this status."),
    more && h("p.after", { "data-key": "earlier" }, h("button", { type: "button", onclick: earlier }, "Show earlier tasks")),
  ];
}

function none() {
  return nothing(
    "No tasks yet",
    "A task is what one agent asks of another by name. Its result goes back to the agent that gave it.",
    tryThis('inbox task submit --from me --to coder --description "Review module X"'),
  );
}

function filters(choose) {
  const button = (status) =>
    h(
      "button",
      { type: "button", "data-key": status, "aria-pressed": String(chosen === status), onclick: () => choose(status) },
      word(status),
    );
  return h("div.filters", { role: "group", "aria-label": "Status" }, STATUSES.map(button));
}

function line(task) {
  return h(
    "li",
    { "data-key": task.task_id },
    h(
      "a.line.thread-line",
      { href: address("tasks", task.task_id) },
      statusMark(task.status),
      h("span.subject", { dir: "auto" }, task.description.trim().split("\n", 1)[0]),
      priorityBadge(task.priority),
      forWhom(task.source_agent, task.target_agent),
      stamp(task.ended_at ?? task.accepted_at ?? task.created_at),
    ),
  );
}
