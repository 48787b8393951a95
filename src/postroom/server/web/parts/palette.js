// The command palette (Ctrl-K): rooms, actions and entries, filtered by the typed text.

import { get } from "../lib/api.js";
import { placeOf, searchRooms } from "../inbox/elsewhere.js";
import { fill, h } from "../lib/dom.js";
import { address, go } from "../lib/router.js";
import { dialog } from "./dialog.js";
import { help } from "./help.js";
import { icon } from "./icons.js";
import { choose } from "../lib/settings.js";

const PAUSE = 120;

export function palette({ rooms, actions }) {
  if (document.querySelector("dialog[open]")) return;
  const field = h("input", {
    type: "text",
    role: "combobox",
    "aria-label": "Command palette",
    "aria-expanded": "true",
    "aria-controls": "found",
    "aria-autocomplete": "list",
    autocomplete: "off",
    placeholder: "Where to, or what to do?",
    autofocus: true,
  });
  const list = h("div", { role: "listbox", id: "found", "aria-label": "Found" });
  const element = dialog("Command palette", h("div.body", {}, field, list));
  element.classList.add("palette");
  const fixed = [
    ...actions.map(({ name, key, act, icon: picture }) => ({ name, key, act, picture })),
    ...Object.entries(rooms).map(([room, title]) => ({ name: `Go to ${title}`, picture: room, act: () => go(address(room)) })),
    ...["System", "Light", "Dark"].map((name) => ({
      name: `Theme: ${name}`,
      picture: "settings",
      act: () => choose({ theme: name.toLowerCase() }),
    })),
    ...[
      ["One line", "one"],
      ["Two lines", "two"],
    ].map(([name, rows]) => ({ name: `Rows: ${name}`, picture: "queues", act: () => choose({ rows }) })),
    { name: "Keyboard shortcuts", key: "?", picture: "keyboard", act: help },
  ];
  new Choices(element, field, list, fixed);
}

class Choices {
  constructor(element, field, list, fixed) {
    Object.assign(this, { element, field, list, fixed, options: [], at: 0, timer: 0 });
    field.addEventListener("input", () => this.look());
    field.addEventListener("keydown", (event) => this.key(event));
    this.look();
  }

  look() {
    const wanted = this.field.value.trim().toLowerCase();
    const words = wanted.split(/\s+/);
    this.show(this.fixed.filter(({ name }) => words.every((word) => name.toLowerCase().includes(word))));
    clearTimeout(this.timer);
    if (wanted.length > 1) this.timer = setTimeout(() => this.search(wanted), PAUSE);
  }

  async search(wanted) {
    const asked = get(`/api/inbox/search?q=${encodeURIComponent(wanted)}&limit=8`).catch(() => ({ entries: [] }));
    this.places ??= readPlaces();
    const rooms = searchRooms(wanted, 5).catch(() => ({ hits: [] }));
    const [found, { hits }, places] = await Promise.all([asked, rooms, this.places]);
    if (!this.element.isConnected || this.field.value.trim().toLowerCase() !== wanted) return;
    const words = wanted.split(/\s+/);
    const elsewhere = hits.map((hit) => ({
      name: hit.kind === "thread" ? `Thread: ${hit.title}` : `${hit.title}: ${hit.text.slice(0, 80)}`,
      picture: hit.kind === "thread" ? "threads" : "mailboxes",
      path: placeOf(hit),
      act: () => go(placeOf(hit)),
    }));
    const known = new Set(elsewhere.map(({ path }) => path));
    const isNamed = ({ name, path }) => !known.has(path) && words.every((word) => name.toLowerCase().includes(word));
    const named = places.filter(isNamed).slice(0, 8);
    const entries = found.entries.map((entry) => ({
      name: `${entry.workspaceLabel}: ${entry.title}`,
      picture: entry.kind === "question" ? "questions" : "inbox",
      act: () => go(address(entry.kind === "notice" ? "notices" : "inbox", entry.id)),
    }));
    this.show([...this.options, ...entries, ...elsewhere, ...named]);
  }

  show(options) {
    this.options = options;
    this.at = Math.min(this.at, Math.max(0, options.length - 1));
    fill(this.list, options.length ? options.map((option, at) => this.line(option, at)) : h("p.soft.body", {}, "Nothing by that name."));
    this.mark();
  }

  line(option, at) {
    return h(
      "div",
      { role: "option", id: `found-${at}`, onclick: () => this.take(at) },
      icon(option.picture),
      h("span", {}, option.name),
      option.key && h("kbd", {}, option.key),
    );
  }

  mark() {
    const lines = [...this.list.querySelectorAll("[role=option]")];
    for (const [at, line] of lines.entries()) line.setAttribute("aria-selected", String(at === this.at));
    this.field.setAttribute("aria-activedescendant", lines.length ? `found-${this.at}` : "");
    lines[this.at]?.scrollIntoView({ block: "nearest" });
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.options.length) {
      event.preventDefault();
      this.at = (this.at + step + this.options.length) % this.options.length;
      this.mark();
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.take(this.at);
    }
  }

  take(at) {
    const option = this.options[at];
    if (!option) return;
    this.element.close();
    option.act();
  }
}

const firstLine = (text) => text.trim().split("\n", 1)[0].slice(0, 120);

/** The items of the rooms, by name. A room that cannot be read is left out. */
async function readPlaces() {
  const read = (path) => get(path).catch(() => ({}));
  const limited = ["/api/threads?limit=200", "/api/tasks?limit=200", "/api/runs?limit=100", "/api/mailboxes?limit=200"];
  const lists = [...limited, "/api/agents", "/api/queues"];
  const [{ threads = [] }, { tasks = [] }, { runs = [] }, { mailboxes = [] }, { agents = [] }, { queues = [] }] = await Promise.all(
    lists.map(read),
  );
  const place = (name, picture, path) => ({ name, picture, path, act: () => go(path) });
  return [
    ...threads.map(({ subject, thread_id: id }) => place(`Thread: ${subject}`, "threads", address("threads", id))),
    ...tasks.map(({ description, task_id: id }) => place(`Task: ${firstLine(description)}`, "tasks", address("tasks", id))),
    ...agents.map(({ name }) => place(`Agent: ${name}`, "agents", address("agents"))),
    ...runs.map(({ run_id: id }) => place(`Run: ${id || "(none)"}`, "runs", address("runs", id || "~"))),
    ...mailboxes.map(({ session }) => place(`Mailbox: ${session}`, "mailboxes", address("mailboxes", session))),
    ...queues.map(({ label, path }) => place(`Queue: ${label ?? path}`, "queues", address("queues"))),
  ];
}
