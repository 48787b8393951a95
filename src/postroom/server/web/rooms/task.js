// One task or result: its facts, what was asked, what came back, and its history.

import { at, get, post } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { address, go } from "../lib/router.js";
import { ago } from "../lib/time.js";
import { confirm } from "../parts/dialog.js";
import { loading } from "../parts/state.js";
import { failed, toast } from "../parts/toast.js";
import { unverified } from "./conversation.js";
import { View } from "./keeping.js";
import { fact, priorityBadge, stamp, statusBadge } from "./words.js";

const STEPS = {
  Submitted: "gave it",
  Routed: "has it in the inbox",
  Accepted: "accepted it",
  Returned: "gave it back, or was lost",
  Completed: "completed it",
  Failed: "did not do it",
};

export function showTask(main, id, { titled }) {
  const view = new View(main, {
    name: `task ${id}`,
    title: "Task",
    above: () => crumbs(),
    ask: (signal) => ask(id, signal),
    view: (data) => page(id, data, cancel),
    concerns: (event) => event.message_id === id,
    ghosts: () => loading(5, 88),
    drawn: ({ data }) => data && titled(firstLine(data.task)),
  });
  async function cancel() {
    const asked = await confirm("Cancel this task?", "It ends for good, and the agent that gave it is told.", "Cancel task", {
      reason: true,
    });
    if (!asked) return;
    try {
      await post(at("api", "tasks", id, "cancel"), asked.reason ? { reason: asked.reason } : {});
      toast("Cancelled");
    } catch (error) {
      failed("It was not cancelled.", error);
    }
    view.again();
  }
  return {
    changed: (events) => view.changed(events),
    keys: { Escape: () => go(address("tasks")) },
    leave: () => view.leave(),
  };
}

const firstLine = ({ description }) => description.trim().split("\n", 1)[0];

async function ask(id, signal) {
  const [found, { agents }] = await Promise.all([
    get(at("api", "tasks", id), signal),
    get("/api/agents", signal).catch(() => ({ agents: [] })), // only for who is a person
  ]);
  return { ...found, people: new Set(agents.filter((agent) => agent.kind === "human").map((agent) => agent.name)) };
}

const crumbs = () => h("p.crumbs", {}, h("a", { href: address("tasks") }, "Tasks"));
const link = (room, id) => h("a", { href: address(room, id) }, h("code", {}, id));

function page(id, { task, events, people }, cancel) {
  const open = task.kind === "task" && (task.status === "pending" || task.status === "accepted");
  return h(
    "article",
    { id: "task", "data-key": id, "data-status": task.status },
    crumbs(),
    h(
      "header",
      { "data-key": "head" },
      h("h1", { dir: "auto" }, firstLine(task)),
      h("div.actions", {}, open && h("button", { type: "button", onclick: cancel }, "Cancel")),
    ),
    facts(task, people),
    h("h2.section-head", { "data-key": "asked" }, task.kind === "result" ? "What was asked" : "Description"),
    h("p.plain", { "data-key": "description", dir: "auto" }, task.description),
    json("Context", Object.keys(task.context).length ? task.context : null),
    json("Result", task.artifacts),
    h("h2.section-head", { "data-key": "past" }, "History"),
    h("ol.history", { "aria-label": "History", "data-key": "history" }, events.map(step)),
  );
}

function facts(task, people) {
  const mark = people.has(task.source_agent) && !task.verified && unverified(task);
  return h(
    "dl.facts",
    { "data-key": "facts" },
    fact("Status", statusBadge(task.status), " ", priorityBadge(task.priority)),
    fact("From", task.source_agent, " ", mark),
    fact("For", task.target_agent),
    task.reason && fact("Reason", task.reason),
    task.deadline && fact("Deadline", stamp(task.deadline, ago)),
    task.attempt > 0 && fact("Attempts", String(task.attempt)),
    task.parent && fact("Part of", link("tasks", task.parent)),
    task.answers && fact("Answers", link("tasks", task.answers)),
    task.thread_id && fact("Thread", link("threads", task.thread_id)),
    fact("Given", stamp(task.created_at, ago)),
    fact("Door", task.door),
    fact("Id", h("code", {}, task.task_id)),
  );
}

function json(title, value) {
  if (value === null) return null;
  return [
    h("h2.section-head", { "data-key": `${title} head` }, title),
    h("pre", { "data-key": title, tabindex: "0" }, JSON.stringify(value, null, 2)),
  ];
}

function step(event) {
  const name = event.event_type.replace("task.A2ATask", "");
  return h(
    "li",
    { "data-key": String(event.event_id) },
    h("b", {}, event.source),
    ` ${STEPS[name] ?? name} `,
    h("span.soft.small", {}, stamp(event.created_at, ago)),
  );
}
