// Notifications of the browser: only for questions and failures, only if enabled, and never for entries that are read already.

import { at, get } from "../lib/api.js";
import { address, go } from "../lib/router.js";
import { settings } from "../lib/settings.js";
import { preview } from "../inbox/row.js";

const FAILURES = {
  "thread.failed": (event) => ["A thread failed", event.summary, address("threads", event.thread_id)],
  "mail.dead_letter": (event) => [
    "A message is a dead letter",
    `For ${event.payload.session}: ${event.payload.reason ?? ""}`,
    address("mailboxes", event.payload.session),
  ],
};

export class Notifier {
  constructor(person) {
    this.person = person;
    this.open = new Map(); // tag → Notification
    this.first = !navigator.locks; // of several tabs, the first one speaks
    navigator.locks?.request("postroom.notify", () => new Promise(() => (this.first = true)));
    this.look = null; // the lock that this tab holds, or is about to
    for (const name of ["focus", "blur"]) window.addEventListener(name, () => this.looking());
    document.addEventListener("visibilitychange", () => this.looking());
    this.looking();
  }

  /** A visible tab holds a lock that all tabs can query. */
  looking() {
    const looks = !document.hidden && document.hasFocus();
    if (looks === Boolean(this.look)) return;
    if (looks) {
      const look = (this.look = { over: false, end: () => {} });
      navigator.locks?.request("postroom.looking", { mode: "shared" }, () => look.over || new Promise((done) => (look.end = done)));
    } else {
      this.look.over = true;
      this.look.end();
      this.look = null;
    }
  }

  async looked() {
    if (!document.hidden && document.hasFocus()) return true;
    const held = (await navigator.locks?.query())?.held ?? [];
    return held.some((lock) => lock.name === "postroom.looking");
  }

  heard(events) {
    for (const event of events) {
      if (event.event_type === "entry.read" || event.event_type === "entry.deleted") this.close(event.message_id);
      if (!this.wanted()) continue;
      if (event.event_type === "entry.created" && event.payload.kind === "question") this.question(event.message_id).catch(() => {});
      else if (FAILURES[event.event_type]) this.show(`${event.event_id}`, ...FAILURES[event.event_type](event));
    }
  }

  wanted() {
    return this.first && settings().notify && "Notification" in window && Notification.permission === "granted" && !quiet(settings());
  }

  /** Load the question again: it may have been read or answered since. */
  async question(id) {
    const { entry, parts } = await get(at("api", "inbox", id));
    const { question } = [entry, ...parts].find((each) => each.id === id) ?? {};
    if (entry.readAt || question?.state !== "open" || question.to !== this.person) return;
    await this.show(
      entry.id,
      `${entry.workspaceLabel} asks`,
      [entry.title, preview(entry)].filter(Boolean).join("\n"),
      address("inbox", entry.id),
    );
  }

  async show(tag, title, body, place) {
    if (await this.looked()) return;
    const shown = new Notification(title, { body, tag });
    this.open.set(tag, shown);
    shown.onclick = () => {
      window.focus();
      go(place);
      shown.close();
    };
  }

  close(tag) {
    this.open.get(tag)?.close();
    this.open.delete(tag);
  }
}

/** Whether the current time is within the quiet hours, which may span midnight. */
export function quiet({ quiet: on, quietFrom, quietTo }, now = new Date()) {
  if (!on) return false;
  const time = `${String(now.getHours()).padStart(2, "0")}:${String(now.getMinutes()).padStart(2, "0")}`;
  return quietFrom <= quietTo ? time >= quietFrom && time < quietTo : time >= quietFrom || time < quietTo;
}
