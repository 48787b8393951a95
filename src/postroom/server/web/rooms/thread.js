// One thread: its facts, its lease, its messages, and the actions of a person.

import { at, get, post } from "../lib/api.js";
import { $, h } from "../lib/dom.js";
import { inField } from "../lib/keys.js";
import { onPending, pendingOf, sendByEnter } from "../lib/pending.js";
import { address, go } from "../lib/router.js";
import { draft } from "../lib/settings.js";
import { ago, everySecond, when } from "../lib/time.js";
import { markdown } from "../inbox/markdown.js";
import { mayChoose } from "../inbox/question.js";
import { replyBar, sendLater } from "../inbox/reply.js";
import { confirm } from "../parts/dialog.js";
import { loading } from "../parts/state.js";
import { failed, toast } from "../parts/toast.js";
import { conversation, fillTexts } from "./conversation.js";
import { View } from "./keeping.js";
import { ENDED, fact, priorityBadge, runName, runPath, stamp, statusBadge } from "./words.js";

export function showThread(main, id, { titled }) {
  const view = new View(main, {
    name: `thread ${id}`,
    title: "Thread",
    above: () => crumbs(),
    ask(signal) {
      return ask(id, signal, this.data);
    },
    // A thread that was shown before is drawn before `view` is assigned.
    view(data) {
      const answer = (choice, question, terms) => answerQuestion(this, id, { choice, question, terms });
      const pending = (question = null) => pendingOf(`reply ${matterOf(id, question)}`)[0];
      return page(id, data, { act, answer, choose, chosen: this.chosen, earlier: () => loadEarlier(this, id), pending });
    },
    concerns: (event) => event.thread_id === id,
    ghosts: () => loading(5, 88),
    drawn: (view) => {
      furnish(view, id);
      if (view.data) titled(view.data.thread.subject);
    },
  });
  function choose(question) {
    view.chosen = question;
    view.draw();
    if (question) $("textarea", view.box)?.focus();
  }
  everySecond(view.box, () => countdown(view.box));
  const stop = onPending(() => view.draw());
  async function act(verb) {
    const asked = await confirm(...QUESTIONS[verb], { reason: true });
    if (!asked) return;
    try {
      await post(at("api", "threads", id, verb), asked.reason ? { reason: asked.reason } : {});
      toast(verb === "cancel" ? "Cancelled" : "Released");
    } catch (error) {
      failed(verb === "cancel" ? "It was not cancelled." : "It was not released.", error);
    }
    view.again();
  }
  return {
    changed: (events) => view.changed(events),
    keys: keys(view),
    get actions() {
      return actions(view.data, keys(view).r, act);
    },
    leave: () => {
      stop();
      view.leave();
    },
  };
}

const QUESTIONS = {
  release: ["Release this thread?", "Its holder must stop, and it waits for a worker again.", "Release"],
  cancel: ["Cancel this thread?", "It ends for good. Its holder must stop.", "Cancel thread"],
};

/** The actions that the palette offers here. */
function actions(data, reply, act) {
  if (!data || ENDED.has(data.thread.status)) return [];
  return [
    { name: "Reply", key: "r", icon: "send", act: reply },
    data.lease && { name: "Release this thread", icon: "back", act: () => act("release") },
    { name: "Cancel this thread", icon: "close", act: () => act("cancel") },
  ].filter(Boolean);
}

async function ask(id, signal, shown) {
  const [found, { agents }, { workspaces }] = await Promise.all([
    get(`${at("api", "threads", id)}?html=true`, signal),
    get("/api/agents", signal).catch(() => ({ agents: [] })), // only for who is a person
    get("/api/workspaces", signal).catch(() => ({ workspaces: [] })), // only for the pictures in messages
  ]);
  const people = new Set(agents.filter((agent) => agent.kind === "human").map((agent) => agent.name));
  const folders = new Map(workspaces.map((workspace) => [workspace.agent, workspace.workspace_id]));
  return { ...joined(shown, found), people, folders };
}

/** The newest page, after the earlier pages that are shown already. If messages are missing in between, the newest page alone. */
function joined(shown, newest) {
  const first = newest.messages[0]?.event_id;
  if (!shown || !newest.more || !(shown.messages.at(-1)?.event_id >= first)) return newest;
  return prepended(shown, newest);
}

function prepended(earlier, later) {
  const first = later.messages[0].event_id;
  return {
    ...later,
    messages: [...earlier.messages.filter((message) => message.event_id < first), ...later.messages],
    html: { ...earlier.html, ...later.html },
    next_before_event: earlier.next_before_event,
  };
}

async function loadEarlier(view, id) {
  const before = view.data.next_before_event;
  try {
    const page = await get(`${at("api", "threads", id)}?html=true&before_event=${before}`, view.control.signal);
    if (view.data.next_before_event === before) view.data = prepended(page, view.data);
  } catch (error) {
    if (!view.control.signal.aborted) failed("The earlier messages could not be loaded.", error);
  }
  view.draw();
}

function keys(view) {
  return {
    r: () => $("textarea", view.box)?.focus() ?? true,
    Enter: sendByEnter,
    Escape: () => (inField(document.activeElement) ? document.activeElement.blur() : go(address("threads"))),
  };
}

const crumbs = (...more) => h("p.crumbs", {}, h("a", { href: address("threads") }, "Threads"), ...more);

function page(id, data, { act, ...talk }) {
  const { thread, lease } = data;
  return h(
    "article",
    { id: "thread", "data-key": id, "data-status": thread.status },
    crumbs(" / ", h("a", { href: address("runs", runPath(thread.run_id)) }, runName(thread.run_id))),
    h(
      "header",
      { "data-key": "head" },
      h("h1", { dir: "auto" }, thread.subject),
      h(
        "div.actions",
        {},
        lease && h("button", { type: "button", onclick: () => act("release") }, "Release"),
        !ENDED.has(thread.status) && h("button", { type: "button", onclick: () => act("cancel") }, "Cancel"),
      ),
    ),
    facts(thread),
    holding(thread, lease),
    h("h2.section-head", { "data-key": "said" }, "Conversation"),
    conversation(data, talk),
    ending(id, thread),
  );
}

function facts(thread) {
  return h(
    "dl.facts",
    { "data-key": "facts" },
    fact("Status", statusBadge(thread.status), " ", priorityBadge(thread.priority)),
    fact("From", thread.created_by),
    fact("For", thread.assigned_to),
    thread.task_id && fact("Task", h("code", {}, thread.task_id)),
    fact("Opened", stamp(thread.created_at, ago)),
    fact("Latest", stamp(thread.updated_at, ago)),
    fact("Id", h("code", {}, thread.thread_id)),
  );
}

/** The holder, and a bar for the time that is left of the lease. */
function holding(thread, lease) {
  const nobody = () =>
    h("p.lease", { "data-key": "lease", "data-state": "none" }, "Nobody holds it. It waits for ", h("b", {}, thread.assigned_to), ".");
  if (!lease) return thread.status === "pending" && nobody();
  const times = { "data-until": String(when(lease.expires_at)), "data-length": String(lease.lease_seconds * 1000) };
  return h(
    "p.lease",
    { "data-key": `lease ${lease.agent_id}`, "data-island": "", ...times },
    h("span", {}, "Held by ", h("b", {}, lease.agent_id)),
    " ",
    h("span.left", {}),
    h("span.track", {}, h("span.rest", {})),
  );
}

function countdown(box) {
  const lease = $(".lease[data-until]", box);
  if (!lease) return;
  const span = Number(lease.dataset.until) - Date.now();
  lease.dataset.state = span > 0 ? "live" : "lapsed";
  $(".left", lease).textContent =
    span > 0 ? `${remaining(span)} left` : `The lease ran out ${ago(Number(lease.dataset.until))}. Anyone may take it.`;
  $(".rest", lease).style.width = `${Math.max(0, Math.min(1, span / Number(lease.dataset.length))) * 100}%`;
}

function remaining(span) {
  const seconds = Math.ceil(span / 1000);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}

function ending(id, thread) {
  const over = ENDED.has(thread.status);
  return [
    over && h("p.soft.over", { "data-key": "over" }, "This thread has ended. For anything more, send a new one."),
    (!over || draft(`thread:${id}`).text) && h("div.reply-bar", { "data-key": "reply", "data-island": "" }),
  ];
}

/** The parts that are not redrawn: the texts of messages, the reply bar, and the countdown of the lease. */
function furnish(view, id) {
  countdown(view.box);
  const place = $(".reply-bar", view.box);
  if (place && !place.firstChild) {
    view.bar = replyBar(`thread:${id}`, { sending: (text) => reply(view, id, text), placeholder: "Reply…" });
    place.append(view.bar);
  }
  if (view.data) fillTexts(view.box, (message) => textOf(view, message));
}

/** The rendered body of a message, with the pictures and links of its sender's workspace, or of the workspace of the thread. */
function textOf(view, id) {
  const { thread, messages, first_message: first, html, folders } = view.data;
  const { from_agent: from } = messages.find((message) => message.message_id === id) ?? first;
  const workspaceId = folders.get(from) ?? folders.get(thread.assigned_to);
  return markdown("div", html[id], { workspaceId }, { quote: (words) => view.bar?.quote(words) });
}

/** The name under which a reply to a thread, or the answer to one of its questions, waits to be sent. */
const matterOf = (id, question) => (question ? `question:${question}` : `thread:${id}`);

async function answerQuestion(view, id, { choice, question, terms }) {
  if (!(await mayChoose(terms, choice))) return;
  const options = { words: choice, of: `choice:${question}`, path: at("api", "threads", id, "reply"), done: () => view.again() };
  sendLater(matterOf(id, question), { body: choice, question }, options);
}

/** Reply in a thread. The server finds the question that it answers, unless several are open: then a person chooses one. */
function reply(view, id, text) {
  const { messages, first_message: first } = view.data;
  const question = view.chosen;
  if (!question && [first, ...messages].filter((message) => message?.is_open).length > 1) {
    toast("Several questions are open: choose the one that you answer.", { wrong: true });
    return false;
  }
  const path = at("api", "threads", id, "reply");
  const back = () => view.bar.setText(text);
  const done = (answer) => (answer ? view.again() : back());
  const body = { body: text, ...(question && { question }) };
  sendLater(matterOf(id), body, { words: text, of: `thread:${id}`, path, done, back, typed: true });
  view.chosen = null;
  view.draw();
  return true;
}
