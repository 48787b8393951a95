// The list of mailboxes with their message counts by state. With an id, that mailbox.

import { get } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { address } from "../lib/router.js";
import { parts, spark } from "../parts/chart.js";
import { nothing, tryThis } from "../parts/state.js";
import { moving, View } from "./keeping.js";
import { showMailbox, STATES } from "./mailbox.js";
import { heads, many } from "./words.js";

export const room = {
  title: "Mailboxes",
  show: (main, id) => (id === null ? showMailboxes(main) : showMailbox(main, id)),
};

function showMailboxes(main) {
  const view = new View(main, {
    name: "mailboxes",
    title: "Mailboxes",
    ask,
    view: page,
    concerns: (event) => event.event_type.startsWith("mail."),
  });
  return { changed: (events) => view.changed(events), keys: moving(view.box, "th a"), leave: () => view.leave() };
}

async function ask(signal) {
  const [{ mailboxes }, activity] = await Promise.all([
    get("/api/mailboxes", signal),
    get("/api/activity?hours=24", signal).catch(() => null),
  ]);
  return { mailboxes, activity };
}

function page({ mailboxes, activity }) {
  const head = h("header", {}, h("h1", {}, "Mailboxes"));
  if (!mailboxes.length) return [head, none()];
  const dead = mailboxes.filter((box) => box.dead_letter);
  return [
    head,
    dead.length > 0 && warning(dead),
    h(
      "div.scroll-x",
      { "data-key": "table", tabindex: "0", role: "region", "aria-label": "Mailboxes by state" },
      table(mailboxes, activity),
    ),
    states(),
  ];
}

function warning(dead) {
  const letters = dead.reduce((all, box) => all + box.dead_letter, 0);
  return h(
    "p.warning",
    { "data-key": "warning" },
    `${many(letters, "dead letter")} in ${many(dead.length, "mailbox", "mailboxes")}. Somebody has to decide: retry or purge.`,
  );
}

function none() {
  return nothing(
    "No mailboxes yet",
    "A mailbox is made by the first message that is sent to it.",
    tryThis('mailbox enqueue --from me --to worker --payload "Hello"'),
  );
}

const COLUMNS = ["dead_letter", ...Object.keys(STATES).filter((state) => state !== "dead_letter")]; // first what somebody has to do something about

function table(mailboxes, activity) {
  return h(
    "table.mailboxes",
    {},
    heads("Mailbox", "By state", ...COLUMNS.map((state) => `#${STATES[state]}`), ...(activity ? ["Last 24 hours"] : [])),
    h(
      "tbody",
      {},
      mailboxes.map((box) =>
        h(
          "tr",
          { "data-key": box.session, "data-dead": box.dead_letter > 0 ? "" : null },
          h("th", { scope: "row" }, h("a", { href: address("mailboxes", box.session) }, box.session)),
          h(
            "td",
            {},
            parts(
              Object.keys(STATES).map((state) => [state, box[state]]),
              box.session,
              { width: 120 },
            ),
          ),
          COLUMNS.map((state) => count(state, box[state])),
          activity && h("td", {}, rhythm(box.session, activity)),
        ),
      ),
    ),
  );
}

function rhythm(session, { sessions, total }) {
  return spark(sessions[session] ?? total.map(() => 0), `Events of ${session}`, { width: 96, height: 20 });
}

function count(state, number) {
  if (state === "dead_letter" && number) return h("td.number", {}, h("span.badge", { "data-tone": "bad" }, String(number)));
  return h("td.number", { "data-none": number === 0 ? "" : null }, String(number));
}

/** The legend: the colour of each state. */
function states() {
  const line = ([state, word]) => h("li", {}, h("span.swatch", { "data-state": state }), word);
  return h("ul.legend", { "aria-label": "Legend", "data-key": "legend" }, Object.entries(STATES).map(line));
}
