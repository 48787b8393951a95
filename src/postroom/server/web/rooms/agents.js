// Agents and people: which are alive, the threads that they hold, when they were last seen, and their activity.

import { get } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { address } from "../lib/router.js";
import { ago, length, when } from "../lib/time.js";
import { spark } from "../parts/chart.js";
import { nothing, tryThis } from "../parts/state.js";
import { moving, View } from "./keeping.js";
import { face, glyph, many, stamp, word } from "./words.js";

export const room = {
  title: "Agents",
  show(main, _id, { summary, summaryRead }) {
    const view = new View(main, {
      name: "agents",
      title: "Agents",
      async ask(signal) {
        const [found] = await Promise.all([ask(signal), summaryRead]);
        return { ...found, me: summary()?.person };
      },
      view: page,
      concerns: () => true, // every write is a sign of life
    });
    return { changed: (events) => view.changed(events), keys: moving(view.box, ".holds a"), leave: () => view.leave() };
  },
};

async function ask(signal) {
  const [{ agents }, activity, { entries: questions }] = await Promise.all([
    get("/api/agents", signal),
    get("/api/activity?hours=24", signal).catch(() => null),
    get("/api/inbox/questions?limit=100", signal).catch(() => ({ entries: [] })),
  ]);
  return { agents, activity, questions };
}

/** Order: the ones that are alive first, then by name. */
const order = (a, b) => Number(b.alive) - Number(a.alive) || a.name.localeCompare(b.name);

/** `me` is the person who looks at the page, and so is there. */
function page({ agents: known, activity, questions, me }) {
  const agents = known.map((agent) => ({
    ...agent,
    me: agent.name === me,
    alive: agent.alive || agent.name === me,
    asks: questions.filter((entry) => entry.from === agent.name),
  }));
  const programs = agents.filter((agent) => agent.kind !== "human").sort(order);
  const people = agents.filter((agent) => agent.kind === "human").sort(order);
  const alive = programs.filter((agent) => agent.alive).length;
  return [
    h("header", {}, h("h1", {}, "Agents"), programs.length > 0 && h("p.soft", {}, `${alive} of ${programs.length} alive`)),
    programs.length ? list("Programs", programs, activity) : none(),
    people.length > 0 && list("People", people, activity),
  ];
}

function none() {
  return nothing(
    "No agents yet",
    "An agent or a person appears here after its first message, claim or answer.",
    tryThis("inbox agent add coder"),
  );
}

function list(title, agents, activity) {
  return h(
    "section",
    { "data-key": title, "aria-label": title },
    h("h2.section-head", {}, title),
    h(
      "ul.agents",
      {},
      agents.map((agent) => line(agent, activity)),
    ),
  );
}

function line(agent, activity) {
  return h(
    "li.agent",
    { "data-key": agent.name, "data-alive": String(agent.alive) },
    face(agent.name, agent.kind === "human"),
    h("div.name", {}, h("h3", {}, agent.name, agent.me && h("span.soft", {}, " (you)")), life(agent)),
    h("div.holding", {}, holds(agent), unread(agent)),
    activity && spark(activity.agents[agent.name] ?? activity.total.map(() => 0), `What ${agent.name} did`),
  );
}

function life({ alive, me, last_seen_at: seen }) {
  return h(
    "p.life.small",
    {},
    h("span.dot", { "aria-hidden": "true" }),
    alive ? "Alive" : "Away",
    h("span.soft", {}, me ? "· here now" : seen ? ["· seen ", stamp(seen, ago)] : "· never seen"),
  );
}

function unread({ unread: count }) {
  return (
    count > 0 && h("span.badge", { "data-tone": "accent", title: "Threads in which something waits for it" }, many(count, "unread thread"))
  );
}

/** The threads that an agent holds, and the questions outside of threads whose answers it waits for. */
function holds({ holds: held, asks, kind, alive }) {
  const waits = asks.filter((entry) => !entry.threadId);
  if (!held.length && !waits.length) return alive && kind !== "human" ? h("p.soft.small", {}, "Holds nothing") : null;
  return h(
    "ul.holds",
    {},
    waits.map(({ id, title, question }) =>
      h(
        "li",
        { "data-key": id },
        glyph("blocked"),
        h("a", { href: address("questions", id), dir: "auto" }, title),
        h("span.soft.small", {}, `Waits for ${question.to}`),
      ),
    ),
    held.map((thread) =>
      h(
        "li",
        { "data-key": thread.thread_id },
        glyph(thread.status),
        h("a", { href: address("threads", thread.thread_id), dir: "auto" }, thread.subject),
        h(
          "span.soft.small",
          {},
          thread.lapsed ? "lease ran out" : `${word(thread.status)}, ${length(when(thread.expires_at) - Date.now())} left`,
        ),
      ),
    ),
  );
}
