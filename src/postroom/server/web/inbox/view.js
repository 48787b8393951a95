// The inbox: a list at the left, an entry at the right, and their keys. The rooms of questions and notices use the same view.

import { get, post } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { isPending, onPending, sendByEnter } from "../lib/pending.js";
import { address, go, query, setQuery } from "../lib/router.js";
import { settings } from "../lib/settings.js";
import { onSwipe } from "../lib/swipe.js";
import { firstRun } from "../parts/connect.js";
import { nothing, quietPane, trouble } from "../parts/state.js";
import { failed, toast } from "../parts/toast.js";
import { Answers } from "./answers.js";
import { actionsOf, keysOf } from "./commands.js";
import { Detail } from "./detail.js";
import { Elsewhere } from "./elsewhere.js";
import { List } from "./list.js";
import { hitPattern } from "./row.js";
import { askWhen } from "./snooze.js";
import { Entries, matterOf, rowOf } from "./state.js";
import { filterOf, Tools } from "./tools.js";

const FINGERS = matchMedia("(hover: none)");
const byHand = (key, swipe) => (FINGERS.matches ? swipe : key);
const OPERATORS = "from:name, is:unread, in:done and before:2026-11-30 narrow a search.";
const places = new Map(); // room → where the list was when it was left

class Inbox {
  constructor(main, id, { room, summary, summaryRead, titled }) {
    Object.assign(this, { main, room, summary, summaryRead, titled, cursor: id, detail: null, workspaces: [] });
    this.marked = new Set(); // opened here, and so read; unless they say otherwise
    this.answers = new Answers(this);
    this.stop = onPending(() => this.draw());
    this.entries = new Entries(room, () => this.draw(), filterOf(query()));
    const act = {
      remove: (id) => this.remove(id),
      done: (id) => this.done(id),
      answer: (entry, choice) => this.answers.choose(entry, choice),
      decide: (entry, type) => this.answers.decide(entry, type),
      openQuestion: (entry) => this.answers.open(entry),
      folded: () => this.folded(),
    };
    this.list = new List({ room, act, nearEnd: () => this.entries.loadMore() });
    onSwipe(this.list.view, ".row", {
      right: (element) => this.done(element.dataset.id),
      left: (element) => this.snooze([element.dataset.id]),
    });
    this.tools = new Tools(this);
    this.becameVisible = () => document.hidden || !this.detail?.detail || this.loaded(this.detail.detail);
    document.addEventListener("visibilitychange", this.becameVisible);
    this.below = h("div.below");
    this.elsewhere = new Elsewhere(() => this.draw());
    this.pane = h("div.pane");
    this.side = h("section.side", { "aria-label": "Entries" }, this.tools.element, this.list.element, this.below, this.elsewhere.element);
    this.side.ariaBusy = "true";
    fill(
      this.below,
      Array.from({ length: 7 }, () => h("div.ghost.row-ghost")),
    );
    this.frame = h("div.inbox", {}, this.side, this.pane);
    fill(main, this.frame);
    this.open(id);
    this.reload().then(() => this.settle(id));
    this.readWorkspaces();
    summaryRead.then(() => this.draw()).catch(() => {}); // without entries, it says what is shown
  }

  // --- the list

  async reload(filter = {}) {
    await this.entries.load(filter);
    if (settings().group === "workspace") await this.entries.loadForGroups();
  }

  /** Bring the row of the entry that the address names into view, or the place where the list was left. */
  async settle(id) {
    if (id !== null) {
      await this.entries.loadUntil(id);
      this.draw();
      this.list.unfold(id);
      this.list.reveal(id);
    } else if (places.has(this.room)) this.list.view.scrollTop = places.get(this.room);
  }

  choose(filter) {
    this.list.restart();
    this.list.selected.clear();
    Object.assign(this.entries.filter, filter);
    setQuery(this.tools.query());
    return this.reload();
  }

  showAll() {
    this.tools.clear();
    this.choose({ unread: false, open: false, workspace: "", words: "", state: "inbox" });
  }

  async readWorkspaces() {
    const found = await get("/api/workspaces").catch(() => ({ workspaces: [] }));
    this.workspaces = found.workspaces;
    this.tools.setWorkspaces(this.workspaces);
    this.detail?.detail && this.detail.draw();
  }

  draw() {
    const { filter, shown, ready, error } = this.entries;
    this.tools.draw(filter, this.list.selected.size);
    this.list.query = location.search;
    this.list.hit = hitPattern(filter.words);
    Object.assign(this.list, { searches: Boolean(filter.words), more: this.entries.more });
    this.elsewhere.show(this.room === "inbox" ? filter.words.trim() : "");
    const visible = this.room === "questions" ? shown.filter((entry) => !isPending(`reply ${entry.question?.entryId}`)) : shown;
    this.list.show(visible, { cursor: this.cursor, open: this.detail?.id ?? null });
    this.answers.numbered.see(this.cursor, this.entries.find(this.cursor)?.question?.entryId);
    this.side.ariaBusy = String(!ready);
    this.list.element.hidden = !visible.length;
    if (ready && (visible.length || error || this.summary())) fill(this.below, visible.length ? null : this.emptiness(filter, error));
    if (!this.detail) this.blank();
  }

  emptiness({ unread, open, workspace, words, state }, error) {
    if (error) return trouble(error, () => this.reload());
    const all = h("button", { type: "button", onclick: () => this.showAll() }, "Show all");
    if (words && this.elsewhere.hits.length) return h("p.soft.small", {}, `No entry here holds “${words}”.`);
    if (words) return nothing("Nothing found", [`No entry here holds “${words}”.`, h("br"), h("span.small", {}, OPERATORS)], all);
    if (open) return nothing("No open questions", "Nobody waits for your answer.", all);
    if (this.room === "questions")
      return nothing("No open questions", "What an agent asks with `inbox ask` or the tool inbox_ask waits here.");
    if (unread) return nothing("All read", "Nothing here is unread.", all);
    if (state === "snoozed")
      return nothing("Nothing is snoozed", `${byHand("Press h on an entry", "Swipe an entry to the left")} to hide it until later.`, all);
    if (state === "done")
      return nothing("Nothing is done yet", `${byHand("Press e on an entry", "Swipe an entry to the right")} to put it away.`, all);
    if (workspace) return nothing("Nothing yet", "This workspace has not pushed anything.", all);
    if (this.room === "notices") return nothing("No notices", "What automation leaves with `inbox notify` is listed here.");
    const any = this.summary()?.any;
    return any ? nothing("All done", "Nothing waits for you here.") : nothing("Nothing here", "What agents push appears here.");
  }

  // --- the open entry

  open(id) {
    if (this.detail?.id === id) return;
    this.detail?.leave();
    const act = {
      close: () => this.go(null),
      remove: () => this.remove(id),
      unread: () => this.unread(),
      done: () => this.done(id),
      snooze: () => this.snooze([id]),
      pin: () => this.pin([id]),
    };
    const detail = {
      act,
      known: () => this.entries.find(id),
      workspaces: () => this.workspaces,
      loaded: (shown) => this.loaded(shown),
      edited: () => (this.entries.replace(id, {}), this.draw()), // its row says what it would approve
      readPerson: () => this.summaryRead.then(() => this.summary().person),
    };
    this.detail = id === null ? null : new Detail(id, detail);
    this.frame.toggleAttribute("data-open", id !== null);
    if (this.detail) {
      this.cursor = id;
      fill(this.pane, this.detail.element);
    } else {
      this.blank();
      this.titled(null);
    }
    this.draw();
  }

  go(id) {
    go(address(this.room, id) + location.search);
  }

  /** Show the first steps, or a hint, while no entry is open. */
  blank() {
    const first = this.entries.ready && !this.entries.list.length && this.summary() && !this.summary().any && this.room === "inbox";
    this.frame.toggleAttribute("data-first", first);
    const wanted = first ? "first" : "quiet";
    if (this.pane.dataset.blank === wanted && this.pane.firstElementChild?.id !== "detail") return;
    this.pane.dataset.blank = wanted;
    const name = { notices: "Notices", questions: "Needs you" }[this.room] ?? "Inbox";
    fill(this.pane, h("h1.hidden", {}, name), first ? firstRun() : quietPane());
  }

  /** Mark an entry as read when it is shown in a visible page. */
  loaded(detail) {
    const entry = rowOf(detail);
    this.entries.replace(entry.id, entry);
    this.titled(entry.title);
    if (!document.hidden && !entry.readAt && !this.marked.has(entry.id)) {
      this.marked.add(entry.id);
      this.entries.mark(entry.id, true);
    }
    this.draw();
  }

  // --- actions of the person

  get target() {
    return this.detail?.id ?? this.cursor;
  }

  /** The chosen entries, or else the one under the cursor. */
  get targets() {
    return this.list.selected.size ? [...this.list.selected] : this.target ? [this.target] : [];
  }

  move(step, { select = false } = {}) {
    const next = this.list.beside(this.cursor, step);
    if (!next) return;
    if (select && this.cursor) this.list.selected.add(this.cursor).add(next);
    this.cursor = next;
    if (this.detail) this.go(next);
    else this.draw();
    this.list.reveal(next, { focus: !this.detail });
    if (this.detail) this.detail.focus();
  }

  /** A group was folded or unfolded. The cursor leaves entries that are not shown, so that no key acts on them. */
  folded() {
    this.draw();
    if (!this.list.isHidden(this.cursor)) return;
    this.cursor = this.list.beside(this.cursor, 1) ?? this.list.beside(this.cursor, -1);
    this.draw();
  }

  enter(event) {
    if (sendByEnter(event)) return true;
    if (event.target.closest?.("button, summary") || (event.target.closest?.("a") && !event.target.closest(".row"))) return false;
    if (!this.cursor) return false;
    this.go(this.cursor);
    this.detail?.focus();
    return true;
  }

  /** The entry after some that leave the list, so that the person goes on there. */
  after(ids) {
    const gone = new Set(ids);
    for (const step of [1, -1])
      for (let at = ids.at(-1), next; (next = this.list.beside(at, step)) && next !== at; at = next) if (!gone.has(next)) return next;
    return null;
  }

  /** Open the entry after one that left the list, and read on there. */
  goOn(id) {
    this.go(id);
    this.detail?.focus();
  }

  asks(id) {
    const { question } = this.entries.find(id) ?? this.detail?.detail?.entry ?? {};
    return question?.state === "open" && !isPending(`reply ${question.entryId}`);
  }

  /** Move entries elsewhere, go on with the next one, and offer to undo it. */
  shift(ids, state, text, until = null) {
    if (!ids.length) return;
    const before = new Map(ids.map((id) => [id, this.entries.find(id)?.state ?? "inbox"]));
    const next = this.entries.filter.state === state ? this.cursor : this.after(ids);
    for (const id of ids) this.entries.move(id, state, until);
    this.list.selected.clear();
    toast(ids.length > 1 ? `${text}: ${ids.length} entries` : text, {
      undo: () => ids.forEach((id) => this.entries.move(id, before.get(id))),
    });
    this.cursor = next;
    if (this.detail && ids.includes(this.detail.id)) this.goOn(next);
    this.draw();
    if (next) this.list.reveal(next, { focus: !this.detail });
    this.entries.head();
  }

  done(id = null) {
    const ids = id ? [id] : this.targets;
    if (this.room === "notices") return this.read(true, ids);
    if (this.entries.filter.state === "done") this.shift(ids, "inbox", "Back in the inbox");
    else this.shift(ids, "done", ids.length === 1 && this.asks(ids[0]) ? "Done. Its question still waits in Needs you" : "Done");
  }

  async snooze(ids = this.targets) {
    if (!ids.length || this.room === "notices") return;
    const chosen = await askWhen();
    if (chosen) this.shift(ids, "snoozed", chosen.text, chosen.until);
  }

  pin(ids = this.targets) {
    for (const id of ids) this.entries.pin(id, !(this.entries.find(id) ?? this.detail?.detail?.entry)?.pinned);
  }

  select(id = this.cursor) {
    if (!id) return;
    if (!this.list.selected.delete(id)) this.list.selected.add(id);
    this.draw();
  }

  read(isRead, chosen = this.targets) {
    const ids = chosen.filter((id) => this.entries.find(id));
    if (!ids.length) return;
    for (const id of ids) {
      this.marked.add(id); // also if it is still on its way: what a person says last holds
      this.entries.mark(id, isRead);
    }
    toast(isRead ? "Marked as read" : "Marked as unread", { undo: () => ids.forEach((id) => this.entries.mark(id, !isRead)) });
    this.list.selected.clear();
    this.draw();
  }

  unread() {
    this.read(false);
  }

  async readAll() {
    const { workspace } = this.entries.filter;
    try {
      const { count } = await post("/api/inbox/read", { section: this.entries.section, ...(workspace && { workspaceId: workspace }) });
      toast(count === 1 ? "1 entry is read" : `${count} entries are read`);
      this.entries.head();
    } catch (error) {
      failed("They could not be marked as read.", error);
    }
  }

  remove(id = null) {
    const ids = (id ? [id] : this.targets).filter((each) => !isPending(`delete ${each}`));
    if (!ids.length) return;
    this.cursor = this.after(ids);
    if (ids.includes(this.detail?.id)) this.goOn(this.cursor);
    const back = (returned) => {
      this.cursor = returned;
      this.draw();
      this.list.reveal(returned);
    };
    for (const each of ids) this.entries.delete(each, back);
    this.list.selected.clear();
    if (this.cursor) this.list.reveal(this.cursor, { focus: !this.detail });
  }

  chooseNumber(number) {
    return this.detail ? this.detail.choose(number) : this.answers.chooseNumber(this.entries.find(this.cursor), number);
  }

  /** Go to the next open question. */
  async nextQuestion() {
    const { entries } = await get("/api/inbox/questions?limit=100").catch(() => ({ entries: [] }));
    const open = entries.filter((entry) => !isPending(`reply ${entry.question?.entryId}`));
    const at = open.findIndex((entry) => entry.id === this.detail?.id);
    const next = open[(at + 1) % (open.length || 1)];
    if (!next) return toast("Nobody waits for your answer.");
    go(address(this.room === "questions" ? "questions" : "inbox", next.id));
    this.detail?.focus();
  }

  escape() {
    if (document.activeElement?.matches("input, textarea, select")) {
      if (document.activeElement === this.tools.search && this.tools.search.value) this.tools.clearSearch();
      return document.activeElement.blur();
    }
    if (this.list.selected.size) {
      this.list.selected.clear();
      return this.draw();
    }
    if (!this.detail && this.entries.filter.words) return this.tools.clearSearch();
    if (!this.detail) return false;
    this.go(null);
    this.list.reveal(this.cursor, { focus: true });
    return true;
  }

  /** The arrows scroll the text of the entry if the focus is there and it is long, and else move in the list. */
  arrow(step) {
    const text = this.detail?.body;
    if (text && document.activeElement === text && text.scrollHeight > text.clientHeight) return false;
    this.move(step);
    return true;
  }

  reply() {
    if (!this.detail && this.cursor) this.go(this.cursor);
    if (!this.detail) return false;
    this.detail.reply();
    return true;
  }

  heard(events) {
    this.entries.heard(events);
    const { entry, replies = [] } = this.detail?.detail ?? {};
    const isOfReply = (event) => replies.some((reply) => reply.messageId && reply.messageId === event.message_id);
    const concerns = (event) =>
      matterOf(event) === this.detail.id ||
      (entry?.threadId && event.thread_id === entry.threadId) ||
      (["mail.acked", "mail.offered"].includes(event.event_type) && isOfReply(event));
    if (events.some((event) => event.event_type === "entry.deleted" && event.message_id === this.detail?.id)) {
      toast("It was deleted elsewhere");
      return this.go(null);
    }
    if (this.detail && (!events.length || events.some(concerns))) this.detail.load();
  }

  leave() {
    document.removeEventListener("visibilitychange", this.becameVisible);
    places.set(this.room, this.list.view.scrollTop);
    this.stop();
    this.tools.leave();
    this.list.leave();
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
      keys: keysOf(inbox),
      leave: () => inbox.leave(),
      get actions() {
        return actionsOf(inbox);
      },
    };
  },
};
