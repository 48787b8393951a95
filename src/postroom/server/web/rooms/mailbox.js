// One mailbox: its dead letters with their actions, and its waiting messages.

import { at, get, post, remove } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { inField } from "../lib/keys.js";
import { address, go } from "../lib/router.js";
import { ago, clock, length, when } from "../lib/time.js";
import { confirm } from "../parts/dialog.js";
import { loading, nothing } from "../parts/state.js";
import { failed, toast } from "../parts/toast.js";
import { View } from "./keeping.js";
import { fact, heads, many, stamp } from "./words.js";

export const STATES = {
  pending: "Pending",
  in_flight: "In flight",
  nacked: "To retry",
  acked: "Acked",
  dead_letter: "Dead letters",
  expired: "Expired",
};
const TONES = { pending: "accent", nacked: "warn" };

const MOST = 100;
const LAST_DATE = 8.64e15; // milliseconds: the end of what a Date can be; created_at may be any number of 64 bits
const LONG = 600; // characters of a payload that are shown at once

export function showMailbox(main, session) {
  const view = new View(main, {
    name: `mailbox ${session}`,
    title: session,
    above: crumbs,
    ask: (signal) => ask(session, signal),
    view: (data) => page(session, data, { retry, purge }),
    concerns: (event) => event.event_type.startsWith("mail.") && event.payload.session === session,
    ghosts: () => loading(4, 96),
  });
  const path = at("api", "mailbox", session, "dead-letter");
  async function retry(id = null, sender = null) {
    await told("It was not retried.", async () => {
      const { retried } = await post(`${path}/retry`, id === null ? {} : { msg_id: id, from: sender });
      toast(`${many(retried, "message")} will be tried again`);
    });
  }
  async function purge(id = null, sender = null) {
    const what = id === null ? "All dead letters of this mailbox are thrown away for good." : "This message is thrown away for good.";
    if (!(await confirm(id === null ? "Purge all dead letters?" : "Purge this dead letter?", what, id === null ? "Purge all" : "Purge")))
      return;
    await told("It was not purged.", async () => {
      const { purged } = await remove(id === null ? `${path}?all=true` : `${path}?${new URLSearchParams({ msg_id: id, from: sender })}`);
      toast(`${many(purged, "dead letter")} purged`);
    });
  }
  async function told(what, act) {
    await act().catch((error) => failed(what, error));
    view.again();
  }
  return {
    changed: (events) => view.changed(events),
    get actions() {
      if (!view.data?.dead.length) return [];
      return [
        { name: "Retry all dead letters", icon: "mailboxes", act: () => retry() },
        { name: "Purge all dead letters", icon: "trash", act: () => purge() },
      ];
    },
    keys: { Escape: () => (inField(document.activeElement) ? document.activeElement.blur() : go(address("mailboxes"))) },
    leave: () => view.leave(),
  };
}

async function ask(session, signal) {
  const [{ mailboxes }, waiting, { entries }] = await Promise.all([
    get("/api/mailboxes", signal),
    get(`${at("api", "mailbox", session)}?limit=${MOST}`, signal),
    get(`${at("api", "mailbox", session, "dead-letter")}?limit=${MOST}`, signal),
  ]);
  return { counts: mailboxes.find((box) => box.session === session) ?? null, waiting, dead: entries };
}

const crumbs = () => h("p.crumbs", {}, h("a", { href: address("mailboxes") }, "Mailboxes"));

function page(session, { counts, waiting, dead }, acts) {
  const head = [crumbs(), h("header", { "data-key": "head" }, h("h1", {}, session))];
  if (!counts && !waiting.total && !dead.length)
    return [head, nothing("There is no such mailbox", "It is made by the first message that is sent to it.")];
  return [head, counts && numbers(counts), deadLetters(dead, counts?.dead_letter ?? dead.length, acts), waitingLetters(waiting)];
}

function numbers(counts) {
  const figure = (state) => h("span.figure", { "data-state": counts[state] ? state : "" }, String(counts[state]));
  return h(
    "dl.facts.numbers",
    { "data-key": "counts" },
    Object.entries(STATES).map(([state, word]) => fact(word, figure(state))),
  );
}

function deadLetters(dead, count, { retry, purge }) {
  return h(
    "section",
    { "data-key": "dead", "aria-label": "Dead letters" },
    h(
      "div.section-head",
      {},
      h("h2", {}, "Dead letters"),
      dead.length > 0 &&
        h(
          "div.actions",
          { "data-key": "all" },
          h("button", { type: "button", onclick: () => retry() }, "Retry all"),
          h("button.danger", { type: "button", onclick: () => purge() }, "Purge all"),
        ),
    ),
    dead.length > 0 &&
      h(
        "ul.letters",
        {},
        dead.map((letter) => deadLetter(letter, retry, purge)),
      ),
    !dead.length && h("p.soft.none", {}, "None: every message was taken, or still can be."),
    count > dead.length && h("p.soft.small.after", {}, `The oldest ${dead.length} of ${count} are shown.`),
  );
}

function deadLetter(letter, retry, purge) {
  const id = letter.msg_id;
  return h(
    "li.letter",
    { "data-key": `${letter.from} ${id}` },
    h(
      "div.why",
      {},
      h("p.reason", {}, letter.reason || "No reason was given"),
      h(
        "p.soft.small",
        {},
        `From ${letter.from} · ${many(letter.attempts, "retry", "retries")} · given up `,
        stamp(letter.failed_at * 1000, ago),
        " · ",
        h("code", {}, id),
      ),
    ),
    h(
      "div.actions",
      {},
      h("button", { type: "button", onclick: () => retry(id, letter.from) }, "Retry"),
      h("button.danger", { type: "button", onclick: () => purge(id, letter.from) }, "Purge"),
    ),
    payload(letter.payload),
  );
}

function payload(text) {
  const shown = (words) => h("pre.payload", { dir: "auto", tabindex: "0", role: "group", "aria-label": "Payload" }, words);
  if (text.length <= LONG) return shown(text);
  return h(
    "div.payload-long",
    {},
    shown(`${text.slice(0, LONG)}…`),
    h("details", {}, h("summary", {}, `All ${text.length.toLocaleString()} characters`), shown(text)),
  );
}

function waitingLetters({ messages, total }) {
  return h(
    "section",
    { "data-key": "waiting", "aria-label": "Waiting" },
    h("div.section-head", {}, h("h2", {}, "Waiting")),
    messages.length > 0 && h("div.scroll-x", { tabindex: "0", role: "region", "aria-label": "Waiting messages" }, table(messages)),
    !messages.length && h("p.soft.none", {}, "Nothing waits in this mailbox."),
    total > messages.length && h("p.soft.small.after", {}, `The first ${messages.length} of ${total} are shown.`),
  );
}

function table(messages) {
  return h(
    "table",
    {},
    heads("Message", "From", "State", "Retries", "Sent", "Next"),
    h(
      "tbody",
      {},
      messages.map((message) =>
        h(
          "tr",
          { "data-key": `${message.from} ${message.msg_id}` },
          h("th", { scope: "row" }, h("code", { title: message.msg_id }, message.msg_id)),
          h("td", {}, message.from),
          h("td", {}, h("span.badge", { "data-tone": TONES[message.state] ?? "" }, STATES[message.state] ?? message.state)),
          h("td", {}, String(message.attempt)),
          h("td", {}, stamp(Math.min(message.created_at * 1000, LAST_DATE), clock)),
          h("td", {}, next(message)),
        ),
      ),
    ),
  );
}

/** The next transition of a message that happens by itself: timeout, retry or expiry. */
function next({ state, due_at: due }) {
  if (!due) return h("span.soft", {}, "–");
  const span = when(due) - Date.now();
  const verb = { in_flight: "Handed out again", nacked: "Tried again", pending: "Expires" }[state] ?? "Moves";
  return span > 0 ? `${verb} in ${length(span)}` : `${verb} now`;
}
