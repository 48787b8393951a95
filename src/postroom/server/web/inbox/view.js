// The inbox: a list at the left, an entry at the right, and their keys. The room of notices uses the same view.

import { get } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { address, go } from "../lib/router.js";
import { choose, settings } from "../lib/settings.js";
import { firstRun } from "../parts/connect.js";
import { icon } from "../parts/icons.js";
import { nothing, trouble } from "../parts/state.js";
import { toast } from "../parts/toast.js";
import { Detail } from "./detail.js";
import { List } from "./list.js";
import { Entries } from "./state.js";

const PAUSE = 150; // milliseconds after the last letter of a search

class Inbox {
  constructor(main, id, { room, summary }) {
    Object.assign(this, { main, room, summary, cursor: id, detail: null, workspaces: [] });
    this.marked = new Set(); // opened here, and so read; unless they say otherwise
    this.entries = new Entries(room === "notices" ? "notices" : "inbox", () => this.draw());
    this.list = new List({ room, remove: (entry) => this.remove(entry), nearEnd: () => this.entries.loadMore() });
    this.below = h("div.below");
    this.pane = h("div.pane");
    this.side = h("section.side", { "aria-label": "Entries" }, this.tools(), this.list.element, this.below);
    this.side.ariaBusy = "true";
    this.ghosts();
    this.frame = h("div.inbox", {}, this.side, this.pane);
    fill(main, this.frame);
    this.open(id);
    this.reload();
    this.readWorkspaces();
  }

  tools() {
    const filter = (name, wanted) => h("button", { type: "button", "aria-pressed": "false", onclick: () => this.choose(wanted) }, name);
    this.filters = [
      filter("All", { unread: false, open: false }),
      filter("Unread", { unread: true, open: false }),
      filter("Questions", { unread: false, open: true }),
    ];
    if (this.room === "notices") this.filters.pop();
    this.search = h("input", { type: "search", "aria-label": "Search entries", placeholder: "Search", oninput: () => this.searching() });
    this.workspace = h(
      "select",
      { "aria-label": "Workspace", onchange: () => this.choose({ workspace: this.workspace.value }) },
      h("option", { value: "" }, "All workspaces"),
    );
    this.group = h(
      "select",
      { "aria-label": "Group by", onchange: () => this.regroup() },
      h("option", { value: "date" }, "Date"),
      h("option", { value: "workspace" }, "Workspace"),
    );
    this.group.value = settings().group;
    const selects = this.room === "notices" ? null : h("div.selects", {}, this.workspace, this.group);
    return h(
      "div.tools",
      {},
      h("label.search", {}, icon("search"), this.search),
      h("div.filters", { role: "group", "aria-label": "Show" }, this.filters),
      selects,
    );
  }

  ghosts() {
    fill(
      this.below,
      Array.from({ length: 7 }, () => h("div.ghost.row-ghost")),
    );
  }

  // --- the list

  async reload(filter = {}) {
    await this.entries.load(filter);
    if (settings().group === "workspace") await this.entries.loadForGroups();
  }

  choose(filter) {
    this.list.restart();
    this.reload(filter);
  }

  showAll() {
    this.search.value = this.workspace.value = "";
    this.choose({ unread: false, open: false, workspace: "", words: "" });
  }

  searching() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.choose({ words: this.search.value.trim() }), PAUSE);
  }

  regroup() {
    choose({ group: this.group.value });
    this.list.restart();
    this.draw();
    if (this.group.value === "workspace") this.entries.loadForGroups();
  }

  async readWorkspaces() {
    const found = await get("/api/workspaces").catch(() => ({ workspaces: [] }));
    this.workspaces = found.workspaces;
    const options = this.workspaces.map(({ workspace_id: id, label }) => h("option", { value: id }, label));
    this.workspace.append(...options);
    this.detail?.detail && this.detail.draw();
  }

  draw() {
    const { filter, shown, ready, error } = this.entries;
    const states = [!filter.unread && !filter.open, filter.unread, filter.open];
    for (const [at, button] of this.filters.entries()) button.setAttribute("aria-pressed", String(states[at]));
    this.list.show(shown, { cursor: this.cursor, open: this.detail?.id ?? null });
    this.side.ariaBusy = String(!ready);
    this.list.element.hidden = !shown.length;
    if (ready) fill(this.below, shown.length ? null : this.emptiness(filter, error));
    if (!this.detail) this.blank();
  }

  emptiness({ unread, open, workspace, words }, error) {
    if (error) return trouble(error, () => this.reload());
    const all = h("button", { type: "button", onclick: () => this.showAll() }, "Show all");
    if (words) return nothing("Nothing found", `No entry holds “${words}”.`, all);
    if (open) return nothing("No open questions", "Nobody waits for your answer.", all);
    if (unread) return nothing("All read", "Nothing here is unread.", all);
    if (workspace) return nothing("Nothing yet", "This workspace has not pushed anything.", all);
    return this.room === "notices"
      ? nothing("No notices", "What automation leaves with `inbox notify` is listed here.")
      : nothing("Nothing here", "What agents push appears here.");
  }

  // --- the open entry

  open(id) {
    if (this.detail?.id === id) return;
    this.detail?.leave();
    this.detail =
      id === null
        ? null
        : new Detail(id, {
            close: () => go(address(this.room)),
            remove: () => this.remove(id),
            unread: () => this.unread(),
            workspaces: () => this.workspaces,
            loaded: (entry) => this.loaded(entry),
          });
    this.frame.toggleAttribute("data-open", id !== null);
    if (this.detail) {
      this.cursor = id;
      fill(this.pane, this.detail.element);
    } else this.blank();
    this.draw();
  }

  /** Nothing is open: show the first steps, or a hint. */
  blank() {
    const first = this.entries.ready && !this.entries.list.length && this.summary() && !this.summary().any && this.room === "inbox";
    this.frame.toggleAttribute("data-first", first);
    const wanted = first ? "first" : "quiet";
    if (this.pane.dataset.blank === wanted && this.pane.firstElementChild?.id !== "detail") return;
    this.pane.dataset.blank = wanted;
    fill(
      this.pane,
      first
        ? firstRun()
        : h(
            "p.empty.soft",
            {},
            "Nothing is open. ",
            h("kbd", {}, "j"),
            " and ",
            h("kbd", {}, "k"),
            " move, ",
            h("kbd", {}, "Enter"),
            " opens, ",
            h("kbd", {}, "?"),
            " tells the rest.",
          ),
    );
  }

  /** Mark an entry as read when it is shown in a visible page. */
  loaded(entry) {
    this.entries.replace(entry.id, entry);
    if (!entry.readAt && !this.marked.has(entry.id)) {
      this.marked.add(entry.id);
      this.entries.mark(entry.id, true);
    }
    this.draw();
  }

  // --- actions of the person

  get target() {
    return this.detail?.id ?? this.cursor;
  }

  move(step) {
    const next = this.list.beside(this.cursor, step);
    if (!next) return;
    this.cursor = next;
    if (this.detail) go(address(this.room, next));
    else this.draw();
    this.list.reveal(next, { focus: !this.detail });
    if (this.detail) this.detail.element.focus({ preventScroll: true });
  }

  enter(event) {
    if (event.target.closest?.("a, button, summary")) return false;
    if (!this.cursor) return false;
    go(address(this.room, this.cursor));
    this.detail?.element.focus({ preventScroll: true });
    return true;
  }

  done() {
    const id = this.target;
    if (!id || !this.entries.find(id)) return;
    this.entries.mark(id, true);
    toast("Done", { undo: () => this.entries.mark(id, false) });
    const next = this.list.beside(id, 1);
    if (next !== id) this.move(1);
  }

  unread() {
    const id = this.target;
    if (!id || !this.entries.find(id)) return;
    this.marked.add(id); // also if it is still on its way: what a person says last holds
    this.entries.mark(id, false);
    toast("Marked as unread", { undo: () => this.entries.mark(id, true) });
  }

  remove(id = this.target) {
    if (!id || this.entries.leaving.has(id)) return;
    const next = this.list.beside(id, 1);
    this.cursor = next === id ? this.list.beside(id, -1) : next;
    if (this.cursor === id) this.cursor = null;
    if (this.detail?.id === id) go(address(this.room, this.cursor));
    this.entries.delete(id, (back) => {
      this.cursor = back;
      this.draw();
      this.list.reveal(back);
    });
    if (this.cursor) this.list.reveal(this.cursor, { focus: !this.detail });
  }

  escape() {
    if (document.activeElement?.matches("input, textarea, select")) return document.activeElement.blur();
    if (!this.detail) return false;
    go(address(this.room));
    this.list.reveal(this.cursor, { focus: true });
    return true;
  }

  keys() {
    const numbers = Object.fromEntries(Array.from({ length: 9 }, (_, at) => [String(at + 1), () => this.detail?.choose(at + 1) ?? false]));
    return {
      ...numbers,
      j: () => this.move(1),
      k: () => this.move(-1),
      ArrowDown: () => this.move(1),
      ArrowUp: () => this.move(-1),
      Enter: (event) => this.enter(event),
      o: () => this.cursor && go(address(this.room, this.cursor)),
      e: () => this.done(),
      u: () => this.unread(),
      r: () => this.reply(),
      Delete: () => this.remove(),
      "#": () => this.remove(),
      "/": () => this.search.focus(),
      Escape: () => this.escape(),
    };
  }

  reply() {
    if (!this.detail && this.cursor) go(address(this.room, this.cursor));
    if (!this.detail) return false;
    this.detail.reply();
    return true;
  }

  actions() {
    const of = this.target
      ? [
          ["Reply", "r", () => this.reply(), "send"],
          ["Done", "e", () => this.done(), "check"],
          ["Mark as unread", "u", () => this.unread(), "inbox"],
          ["Delete", "#", () => this.remove(), "trash"],
        ]
      : [];
    return [...of, ["Search entries", "/", () => this.search.focus(), "search"]].map(([name, key, act, picture]) => ({
      name,
      key,
      act,
      icon: picture,
    }));
  }

  heard(events) {
    this.entries.heard(events);
    const { entry } = this.detail?.detail ?? {};
    const concerns = (event) =>
      event.message_id === this.detail.id ||
      (entry?.threadId && event.thread_id === entry.threadId) ||
      event.event_type === "mail.acked" ||
      event.event_type === "mail.offered";
    if (events.some((event) => event.event_type === "entry.deleted" && event.message_id === this.detail?.id)) {
      toast("It was deleted elsewhere");
      return go(address(this.room));
    }
    if (this.detail && (!events.length || events.some(concerns))) this.detail.load();
  }

  leave() {
    clearTimeout(this.timer);
    this.entries.leave();
    this.detail?.leave();
  }
}

export const room = {
  title: "Inbox",
  show(main, id, context) {
    const inbox = new Inbox(main, id, context);
    return {
      open: (next) => inbox.open(next),
      changed: (events) => inbox.heard(events),
      keys: inbox.keys(),
      leave: () => inbox.leave(),
      get actions() {
        return inbox.actions();
      },
    };
  },
};
