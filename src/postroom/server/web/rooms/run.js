// One run: its picture over time, and the same facts in a table.

import { at, get } from "../lib/api.js";
import { $, h } from "../lib/dom.js";
import { inField } from "../lib/keys.js";
import { address, go } from "../lib/router.js";
import { clock, full, length } from "../lib/time.js";
import { loading } from "../parts/state.js";
import { moving, View } from "./keeping.js";
import { laneNames, legend, outside, picture } from "./picture.js";
import { facts, layout } from "./swimlane.js";
import { Tip } from "./tip.js";
import { byStatus, ENDED, fact, heads, many, runName, stamp, STATUSES, statusBadge } from "./words.js";

const NARROWEST = 560;
const WIDEST = 2400;
const REDRAW = 5000; // the line of now moves on, once that can be seen

export function showRun(main, path) {
  const run = path === "~" ? "" : path;
  const state = { width: 0, current: null, scrolled: false, watch: null, now: 0, rate: 0 };
  const view = new View(main, {
    name: `run ${path}`,
    title: runName(run),
    above: crumbs,
    ask: (signal) => ask(path, signal),
    view: (data) => page(run, data, state),
    concerns: (event) => event.run_id === run && event.event_type.startsWith("thread."),
    every: 0,
    ghosts: () => loading(3, 120),
    drawn: (view) => fit(view, state),
  });
  const beat = setInterval(() => moved(state) && view.draw(), REDRAW);
  const tip = new Tip(main, view.box);
  listen(view.box, state);
  return {
    changed: (events) => view.changed(events),
    keys: {
      ...moving(view.box, "td a"),
      Escape: () => (inField(document.activeElement) ? document.activeElement.blur() : go(address("runs"))),
    },
    leave() {
      clearInterval(beat);
      state.watch?.disconnect();
      tip.remove();
      view.leave();
    },
  };
}

/** Whether the current time moved by at least a pixel, or a minute, since the last drawing. */
const moved = ({ now, rate }) => rate > 0 && (Date.now() - now >= 60_000 || (Date.now() - now) * rate >= 1);

async function ask(path, signal) {
  const [run, { agents }] = await Promise.all([
    get(at("api", "runs", path), signal),
    get("/api/agents", signal).catch(() => ({ agents: [] })),
  ]);
  return { ...run, people: new Set(agents.filter(({ kind }) => kind === "human").map(({ name }) => name)) };
}

/** Draw the picture as wide as its container. A run that has not ended is scrolled to its end first. */
function fit(view, state) {
  const place = $(".timeline", view.box);
  if (!place) return;
  if (!state.watch) {
    state.watch = new ResizeObserver(() => fit(view, state));
    state.watch.observe(place);
  }
  if (place.clientWidth !== state.width) {
    state.width = place.clientWidth;
    view.draw();
  }
  if (state.scrolled || !state.width) return;
  state.scrolled = true;
  if (view.data.threads.some(({ status }) => !ENDED.has(status))) place.scrollLeft = place.scrollWidth;
}

const crumbs = () => h("p.crumbs", {}, h("a", { href: address("runs") }, "Runs"));

function page(run, data, state) {
  const now = Date.now();
  const busiest = Math.max(...Object.values(Object.groupBy(data.events, ({ source }) => source)).map(({ length: count }) => count), 0);
  const width = Math.max(state.width || NARROWEST, Math.min(WIDEST, Math.max(NARROWEST, busiest * 14)));
  const laid = layout(data, now, width - outside);
  Object.assign(state, { now, rate: laid.alive ? laid.scale.rate : 0 });
  const label = `Who did what when in ${runName(run)}. The table below has the same facts.`;
  const names = new Map(data.threads.map((thread) => [thread.thread_id, thread]));
  return [
    crumbs(),
    h("header", { "data-key": "head" }, h("h1", {}, runName(run))),
    about(data, laid),
    h(
      "figure.picture",
      { "data-key": "picture" },
      h("div.lanes", {}, laneNames(laid, data.people), h("div.timeline.scroll-x", {}, picture(laid, names, state.current, label))),
      h("figcaption", {}, legend(laid)),
    ),
    h("h2.section-head", { "data-key": "threads" }, "Threads"),
    table(laid.stories.map(facts)),
    data.truncated && h("p.soft.small.after", {}, "There was more: the latest 200 threads and 5000 events are shown."),
  ];
}

function about(data, { scale, alive, lanes }) {
  const counts = Object.fromEntries(STATUSES.map((status) => [status, data.threads.filter((thread) => thread.status === status).length]));
  return h(
    "dl.facts",
    { "data-key": "facts" },
    fact("Threads", many(data.threads.length, "thread"), " ", byStatus(counts)),
    fact("Agents", String(lanes.length)),
    fact("Began", h("span", { title: full(scale.from) }, clock(scale.from))),
    fact(alive ? "Going on for" : "Took", length(scale.to - scale.from)),
  );
}

function table(rows) {
  const time = (span) => (span >= 1000 ? length(span) : "–");
  return h(
    "div.scroll-x",
    { tabindex: "0", role: "region", "aria-label": "Threads of this run", "data-key": "table" },
    h(
      "table.facts-table",
      {},
      heads("Thread", "Status", "By", "Began", "Waited", "Worked", "Blocked", "Asked", "Ended"),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            { "data-key": row.thread.thread_id },
            h("th", { scope: "row" }, h("a", { href: address("threads", row.thread.thread_id), dir: "auto" }, row.thread.subject)),
            h("td", {}, statusBadge(row.thread.status)),
            h("td", {}, row.workers.join(", ") || h("span.soft", {}, `for ${row.thread.assigned_to}`)),
            h("td", {}, stamp(row.began, clock)),
            h("td", {}, time(row.waited)),
            h("td", {}, time(row.worked)),
            h("td", {}, time(row.blocked)),
            h(
              "td",
              {},
              row.questions ? `${many(row.questions, "question")}, ${row.answers ? many(row.answers, "answer") : "no answer"}` : "–",
            ),
            h("td", {}, row.ended ? stamp(row.ended, clock) : "–"),
          ),
        ),
      ),
    ),
  );
}

/** Click or Enter opens a thread. The arrow keys move from one element to the next. */
function listen(box, state) {
  box.addEventListener("click", (event) => {
    const thread = event.target.closest(".swimlane [data-thread]")?.dataset.thread;
    if (!thread || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    go(address("threads", thread));
  });
  box.addEventListener("focusin", (event) => {
    const focused = event.target.closest(".swimlane a");
    if (!focused) return;
    for (const each of box.querySelectorAll('.swimlane a[tabindex="0"]')) each.setAttribute("tabindex", "-1");
    focused.setAttribute("tabindex", "0");
    state.current = focused.dataset.key;
  });
  box.addEventListener("keydown", (event) => {
    const focused = event.target.closest(".swimlane a");
    const next = focused && !event.metaKey && !event.ctrlKey && neighbour(focused, event.key);
    if (!next) return;
    event.preventDefault();
    next.focus();
    next.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
}

function neighbour(element, key) {
  const lane = element.closest(".lane");
  const all = [...lane.querySelectorAll("a")].sort((a, b) => left(a) - left(b));
  const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (step) return all[all.indexOf(element) + step] ?? element;
  if (key === "Home") return all[0];
  if (key === "End") return all.at(-1);
  const other = { ArrowUp: lane.previousElementSibling, ArrowDown: lane.nextElementSibling }[key];
  if (!other?.matches(".lane")) return null;
  return [...other.querySelectorAll("a")].sort((a, b) => Math.abs(left(a) - left(element)) - Math.abs(left(b) - left(element)))[0];
}

const left = (element) => element.getBoundingClientRect().left;
