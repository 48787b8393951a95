// The registered queues: their growth, the progress of their consumers, and the last runs of handlers.

import { get } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { ago, length } from "../lib/time.js";
import { spark } from "../parts/chart.js";
import { loading, nothing, tryThis } from "../parts/state.js";
import { View } from "./keeping.js";
import { heads, many, stamp } from "./words.js";

const LOOK = 5000; // milliseconds: a queue is a folder of its own, and tells this store of nothing
const LAST = 5;

export const room = {
  title: "Queues",
  show(main) {
    const view = new View(main, {
      name: "queues",
      title: "Queues",
      ask: (signal) => get("/api/queues", signal),
      view: ({ queues }) => [h("header", {}, h("h1", {}, "Queues")), queues.length ? h("div.queues", {}, queues.map(card)) : none()],
      look: LOOK,
      ghosts: () => loading(2, 240),
    });
    return { changed: (events) => events.length || view.again(), leave: () => view.leave() };
  },
};

function none() {
  return nothing(
    "No queue is watched",
    "Register one on the machine that the server runs on, and it appears here:",
    tryThis('inbox queue add PATH --label "House events"'),
  );
}

const nameOf = ({ label, path }) => label || path.split("/").filter(Boolean).at(-1) || path;

function card(queue) {
  return h(
    "article.card.queue",
    { "data-key": queue.path, "aria-label": nameOf(queue) },
    h(
      "header",
      {},
      h("div", {}, h("h2", {}, nameOf(queue)), h("p.path", {}, h("code", {}, queue.path))),
      !queue.error &&
        h(
          "div.rate",
          {},
          spark(queue.rate, `Events of ${nameOf(queue)}`, { width: 168, height: 32 }),
          h("p.soft.small", {}, `${many(lastDay(queue), "event")} in 24 hours, ${queue.events.toLocaleString()} in all`),
        ),
    ),
    queue.error ? h("p.warning", {}, `It cannot be read: ${queue.error}`) : [consumers(queue), runs(queue)],
  );
}

const lastDay = ({ rate }) => rate.reduce((sum, number) => sum + number, 0);

function consumers(queue) {
  if (!queue.consumers.length) return h("p.soft.none", { "data-key": "consumers" }, "Nobody has subscribed to it.");
  const most = Math.max(1, ...queue.consumers.map(({ lag }) => lag));
  return h(
    "div.scroll-x",
    { "data-key": "consumers", tabindex: "0", role: "region", "aria-label": `Consumers of ${nameOf(queue)}` },
    h(
      "table",
      {},
      heads("Consumer", "Behind", "State", "#Acked up to"),
      h(
        "tbody",
        {},
        queue.consumers.map((consumer) =>
          h(
            "tr",
            { "data-key": consumer.id },
            h("th", { scope: "row" }, consumer.id),
            h("td", {}, behind(consumer.lag, most)),
            h("td", {}, state(consumer)),
            h("td.number", {}, String(consumer.last_acked_id)),
          ),
        ),
      ),
    ),
  );
}

function behind(lag, most) {
  const bar = h("span.lag-bar", { "aria-hidden": "true" });
  bar.style.width = `${(lag / most) * 72}px`;
  return h("span.lag", { "data-none": lag === 0 ? "" : null }, h("span.lag-number", {}, String(lag)), lag > 0 && bar);
}

function state({ running, trouble, lag }) {
  if (trouble) return [h("span.badge", { "data-tone": "bad" }, "In trouble"), h("p.small.trouble-text", {}, trouble)];
  if (running) return h("span.badge", { "data-tone": "accent" }, "Running");
  return lag ? h("span.badge", {}, "Waiting") : h("span.badge", { "data-tone": "good" }, "Up to date");
}

function runs(queue) {
  if (!queue.runs.length) return h("p.soft.small.none", { "data-key": "runs" }, "Its consumers have not been started yet.");
  return h(
    "div.last-runs",
    { "data-key": "runs" },
    h("h3", {}, "Last runs"),
    h(
      "ul",
      {},
      queue.runs
        .slice(0, LAST)
        .map((run) =>
          h(
            "li",
            { "data-key": `${run.started_at} ${run.attempt}` },
            outcome(run),
            h("span", {}, stamp(run.started_at, ago)),
            h("span.soft.small", {}, run.seconds < 1 ? "under a second" : length(run.seconds * 1000)),
            run.attempt > 1 && h("span.soft.small", {}, `attempt ${run.attempt}`),
            run.output && run.exit_code !== 0 && h("code.output", { title: run.output }, run.output.trim().split("\n").at(-1)),
          ),
        ),
    ),
  );
}

function outcome({ exit_code: code, signal, outcome: word }) {
  if (code === 0) return h("span.badge", { "data-tone": "good" }, "Exit 0");
  return h("span.badge", { "data-tone": "bad" }, code !== null ? `Exit ${code}` : signal !== null ? `Signal ${signal}` : word);
}
