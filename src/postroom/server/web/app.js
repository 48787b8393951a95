// Start the page: read the session, show the room that the address names, bind the keys, and follow events.

import { getIfChanged, whenSignedOut } from "./lib/api.js";
import { $, fill, h } from "./lib/dom.js";
import { bind } from "./lib/keys.js";
import { listen } from "./lib/live.js";
import { oneAtATime } from "./lib/once.js";
import { address, follow, go, here } from "./lib/router.js";
import { choose, onChoice, settings } from "./lib/settings.js";
import { signedOut } from "./parts/connect.js";
import { help } from "./parts/help.js";
import { icon } from "./parts/icons.js";
import { Notifier } from "./parts/notify.js";
import { palette } from "./parts/palette.js";
import { trouble } from "./parts/state.js";
import { undoLast } from "./parts/toast.js";
import { room as inbox } from "./inbox/view.js";
import { room as agents } from "./rooms/agents.js";
import { room as mailboxes } from "./rooms/mailboxes.js";
import { room as queues } from "./rooms/queues.js";
import { room as runs } from "./rooms/runs.js";
import { sendKept } from "./inbox/reply.js";
import { compose } from "./parts/compose.js";
import { drawFavicon } from "./parts/favicon.js";
import { room as settingsRoom } from "./rooms/settings.js";
import { room as tasks } from "./rooms/tasks.js";
import { room as threads } from "./rooms/threads.js";

const ROOMS = { questions: inbox, inbox, notices: inbox, threads, tasks, runs, mailboxes, queues, agents, settings: settingsRoom };
const TITLES = {
  questions: "Needs you",
  inbox: "Inbox",
  notices: "Notices",
  threads: "Threads",
  tasks: "Tasks",
  runs: "Runs",
  mailboxes: "Mailboxes",
  queues: "Queues",
  agents: "Agents",
  settings: "Settings",
};
const ON_PHONES = new Set(["questions", "inbox", "threads", "agents"]); // in the bar at the bottom; the others are behind "More"
const SAYS = { connecting: "Connecting…", live: "Live", away: "Disconnected. Looking again every 20 s.", "signed-out": "Signed out" };

const main = $("#main");
let shown = { room: null, handle: null, unbind: () => {} };
let summary = null;
let summaryTag = null;
let summaryRead = null; // the promise of the first summary
let entryTitle = null;
let worker = null; // whether the service worker was registered

/** The title of the browser's tab: what waits, what is shown, and where. */
function drawTitle() {
  const waiting = summary?.questions || summary?.unread || 0;
  const count = waiting ? `(${waiting > 999 ? "999+" : waiting}) ` : "";
  const id = here().id;
  const names = [entryTitle ?? (id && shown.room !== "inbox" && shown.room !== "questions" ? id : null), TITLES[shown.room], "Postroom"];
  document.title = count + names.filter(Boolean).join(" · ");
}

function frame() {
  const links = Object.entries(TITLES).map(([room, title]) =>
    h(
      "a",
      { href: address(room), "data-room": room, "data-apart": room === "settings", "data-more": !ON_PHONES.has(room) },
      icon(room),
      h("span", {}, title),
      h("span.count", { hidden: true }),
    ),
  );
  const more = h("button.more", { type: "button", "aria-expanded": "false" }, icon("more"), h("span", {}, "More"));
  more.addEventListener("click", () => more.setAttribute("aria-expanded", String($("nav").toggleAttribute("data-all"))));
  $("nav").addEventListener("click", (event) => event.target.closest("a") && $("nav").removeAttribute("data-all"));
  fill($("nav"), links, more);
  const fold = () => choose({ nav: settings().nav === "wide" ? "narrow" : "wide" });
  const folding = { type: "button", "aria-label": "Names of the rooms", title: "Show or hide the names", onclick: fold };
  $("#connection").before(h("button.fold", { ...folding, "aria-expanded": String(settings().nav === "wide") }, icon("fold")));
  $(".bar .brand").after(
    h("button.compose", { type: "button", "aria-label": "New message", onclick: compose }, icon("compose"), h("span", {}, "New message")),
  );
}

/** Show the place that the address names, in the current room or in another one. */
function place({ room, id }) {
  const known = ROOMS[room] ? room : "inbox";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.room === known) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (shown.room === known && shown.handle?.open) {
    shown.handle.open(id);
    return drawTitle();
  }
  shown.handle?.leave?.();
  shown.unbind();
  main.scrollTop = 0;
  entryTitle = null;
  shown = { room: known, handle: null, unbind: () => {} };
  const titled = (title) => {
    entryTitle = title;
    drawTitle();
  };
  const handle = ROOMS[known].show(main, id, { room: known, summary: () => summary, summaryRead, titled });
  shown = { room: known, handle, unbind: handle?.keys ? bind(handle.keys) : () => {} };
  drawTitle();
}

function count(room, number, what = "unread") {
  const badge = $(`nav a[data-room="${room}"] .count`);
  badge.hidden = !number;
  badge.textContent = number > 999 ? "999+" : String(number || "");
  badge.setAttribute("aria-label", `${number} ${what}`);
}

const refresh = oneAtATime(async () => {
  const { body, tag } = await getIfChanged("/api/summary", summaryTag);
  if (!body) return;
  [summary, summaryTag] = [body, tag];
  count("questions", summary.questions, "waiting");
  count("inbox", summary.unread);
  count("notices", summary.notices);
  drawTitle();
  drawFavicon(summary.questions);
});

function state(now) {
  document.documentElement.dataset.live = now;
  $("#connection").textContent = SAYS[now];
  if (now === "live") {
    look();
    sendKept();
    registerWorker();
  }
}

/** Make the page installable. Tried once the server answers, and again when it is back: a browser complains of a script that breaks off. */
async function registerWorker() {
  if (worker || !("serviceWorker" in navigator)) return;
  worker = "asked for";
  try {
    await navigator.serviceWorker.register("/sw.js");
  } catch {
    worker = null; // not everywhere; the page works without
  }
}

/** Reload everything: after the server was unreachable, and at intervals while it is. */
async function look() {
  await refresh().catch(() => {});
  shown.handle?.changed?.([]);
}

/** Apply the look that the person chose: the theme, the rows of lists, and the navigation of narrow windows. */
function dress({ theme, rows, nav }) {
  const { dataset } = document.documentElement;
  if (theme === "system") delete dataset.theme;
  else dataset.theme = theme;
  const wasOne = dataset.rows;
  Object.assign(dataset, { rows, nav });
  $(".bar .fold")?.setAttribute("aria-expanded", String(nav === "wide"));
  if (wasOne && wasOne !== rows) shown.handle?.changed?.([]); // rows of another height
}

function keys() {
  const rooms = {
    "g y": "questions",
    "g i": "inbox",
    "g n": "notices",
    "g t": "threads",
    "g k": "tasks",
    "g r": "runs",
    "g m": "mailboxes",
    "g q": "queues",
    "g a": "agents",
    "g s": "settings",
  };
  const leave = () => (document.activeElement && document.activeElement !== document.body ? document.activeElement.blur() : false);
  bind({
    ...Object.fromEntries(Object.entries(rooms).map(([key, room]) => [key, () => go(address(room))])),
    "?": help,
    c: compose,
    z: undoLast,
    Escape: leave,
  });
  bind({
    "mod+k": () =>
      palette({
        rooms: TITLES,
        actions: [{ name: "New message", key: "c", act: compose, icon: "compose" }, ...(shown.handle?.actions ?? [])],
      }),
  });
}

/** The session is no longer valid: show the sign-in page. */
function leave() {
  if (shown.room === "signed-out") return;
  state("signed-out");
  shown.handle?.leave?.();
  shown.unbind();
  shown = { room: "signed-out", handle: null, unbind: () => {} };
  document.title = "Postroom";
  fill(main, signedOut());
}

async function start() {
  dress(settings());
  onChoice(dress);
  frame();
  whenSignedOut(leave);
  keys();
  try {
    summaryRead = refresh();
    follow(place); // the room reads what it shows meanwhile. Once events arrive, everything is looked at again.
    await summaryRead;
    const { eventId, person } = summary;
    const notifier = new Notifier(person);
    const told = (events) => {
      refresh().catch(() => {});
      shown.handle?.changed?.(events);
      notifier.heard(events);
    };
    listen({ after: eventId, told, state, look, out: leave });
  } catch (error) {
    if (error.status === 401) return;
    state("away");
    shown.handle?.leave?.();
    shown.unbind();
    shown = { room: null, handle: null, unbind: () => {} };
    fill(
      main,
      trouble(error, () => location.reload()),
    );
    setTimeout(() => location.reload(), 20_000);
  }
}

start();
