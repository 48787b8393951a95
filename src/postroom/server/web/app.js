// Start the page: read the session, show the room that the address names, bind the keys, and follow events.

import { get, whenSignedOut } from "./lib/api.js";
import { $, fill, h } from "./lib/dom.js";
import { bind } from "./lib/keys.js";
import { listen } from "./lib/live.js";
import { oneAtATime } from "./lib/once.js";
import { address, follow, go } from "./lib/router.js";
import { onChoice, settings } from "./lib/settings.js";
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
import { room as settingsRoom } from "./rooms/settings.js";
import { room as threads } from "./rooms/threads.js";

const ROOMS = { inbox, notices: inbox, threads, runs, mailboxes, queues, agents, settings: settingsRoom };
const TITLES = {
  inbox: "Inbox",
  notices: "Notices",
  threads: "Threads",
  runs: "Runs",
  mailboxes: "Mailboxes",
  queues: "Queues",
  agents: "Agents",
  settings: "Settings",
};
const SAYS = { connecting: "Connecting…", live: "Live", away: "Disconnected. Looking again every 20 s.", "signed-out": "Signed out" };

const main = $("#main");
let shown = { room: null, handle: null, unbind: () => {} };
let summary = null;

function frame() {
  const links = Object.entries(TITLES).map(([room, title]) =>
    h(
      "a",
      { href: address(room), "data-room": room, "data-apart": room === "settings" },
      icon(room),
      h("span", {}, title),
      h("span.count", { hidden: true }),
    ),
  );
  fill($("nav"), links);
}

/** Show the place that the address names, in the current room or in another one. */
function place({ room, id }) {
  const known = ROOMS[room] ? room : "inbox";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.room === known) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (shown.room === known && shown.handle?.open) return shown.handle.open(id);
  shown.handle?.leave?.();
  shown.unbind();
  main.scrollTop = 0;
  const handle = ROOMS[known].show(main, id, { room: known, summary: () => summary });
  shown = { room: known, handle, unbind: handle?.keys ? bind(handle.keys) : () => {} };
}

function count(room, number) {
  const badge = $(`nav a[data-room="${room}"] .count`);
  badge.hidden = !number;
  badge.textContent = number > 999 ? "999+" : String(number || "");
  badge.setAttribute("aria-label", `${number} unread`);
}

const refresh = oneAtATime(async () => {
  summary = await get("/api/summary");
  count("inbox", summary.unread);
  count("notices", summary.notices);
  document.title = summary.unread ? `(${summary.unread > 999 ? "999+" : summary.unread}) Postroom` : "Postroom";
});

function state(now) {
  document.documentElement.dataset.live = now;
  $("#connection").textContent = SAYS[now];
  if (now === "live") look();
}

/** Reload everything: after the server was unreachable, and at intervals while it is. */
async function look() {
  await refresh().catch(() => {});
  shown.handle?.changed?.([]);
}

function theme({ theme: wanted }) {
  if (wanted === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = wanted;
}

function keys() {
  const rooms = {
    "g i": "inbox",
    "g n": "notices",
    "g t": "threads",
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
    z: undoLast,
    Escape: leave,
  });
  bind({ "mod+k": () => palette({ rooms: TITLES, actions: shown.handle?.actions ?? [] }) });
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
  theme(settings());
  onChoice(theme);
  frame();
  whenSignedOut(leave);
  keys();
  try {
    await refresh();
    const { eventId, person } = summary;
    const notifier = new Notifier(person);
    follow(place);
    const told = (events) => {
      refresh().catch(() => {});
      shown.handle?.changed?.(events);
      notifier.heard(events);
    };
    listen({ after: eventId, told, state, look, out: leave });
  } catch (error) {
    if (error.status === 401) return;
    state("away");
    fill(
      main,
      trouble(error, () => location.reload()),
    );
    setTimeout(() => location.reload(), 20_000);
  }
}

start();
