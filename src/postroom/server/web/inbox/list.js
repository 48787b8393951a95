// The list of entries: groups and rows. Only the visible ones are in the page.

import { fill, h } from "../lib/dom.js";
import { Scroll } from "../lib/scroll.js";
import { settings } from "../lib/settings.js";
import { day } from "../lib/time.js";
import { asksInRow, patchRow, row, rowHeight } from "./row.js";

const HEAD = 34;
const TICK = 20_000; // milliseconds between updates of relative times
const DOUBLE_CLICK = 400; // milliseconds
const SAME_PLACE = 8; // pixels

export class List {
  constructor({ room, act, nearEnd }) {
    this.room = room;
    this.act = act;
    this.selected = new Set();
    this.query = "";
    this.hit = null; // a pattern of the words that are marked
    this.ticking = setInterval(() => this.tick(), TICK);
    this.items = [];
    this.known = null; // ids that were there before, to tell what is new above
    this.list = h("ul");
    this.news = h("button.news", { type: "button", hidden: true, onclick: () => this.top() });
    this.view = h("div", { id: "entries", tabindex: "-1" }, this.list);
    this.view.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.view.addEventListener("click", dropSlidClicks(), { capture: true });
    this.sticky = h("div.group.sticky", { "aria-hidden": "true", hidden: true }, h("h3")); // the name of the group at the top
    this.element = h("div.list", {}, this.news, this.view, this.sticky);
    this.scroll = new Scroll(this.view, this.list, {
      make: (item) => this.make(item),
      patch: (element, item) => this.patch(element, item),
      nearEnd,
    });
    this.fresh = 0;
  }

  make(item) {
    return item.name ? h("li.group", {}, h("h3", {}, item.name)) : row(item, this.act);
  }

  patch(element, item) {
    if (item.name) fill(element, h("h3", {}, item.name));
    else patchRow(element, item, this.act);
  }

  leave() {
    clearInterval(this.ticking);
  }

  /** Draw the visible rows again: what they say of the time has changed. */
  tick() {
    if (!this.view.isConnected || !this.shown) return;
    this.items = [];
    this.show(...this.shown);
  }

  /** Show entries, with the one under the cursor and the one that is open. */
  show(entries, { cursor, open }) {
    this.shown = [entries, { cursor, open }];
    const before = new Map(this.items.map((item) => [item.key, item]));
    const same = (item) => {
      const old = before.get(item.key);
      const same =
        old && ["entry", "cursor", "open", "name", "selected", "hit", "query", "height"].every((name) => old[name] === item[name]);
      return same ? old : item;
    };
    const { room, query, hit } = this;
    this.items = grouped(entries, groupOf(room), room).map((item) => {
      const states = { room, query, hit, cursor: item.key === cursor, open: item.key === open, selected: this.selected.has(item.key) };
      return same(item.name ? item : { ...item, ...states });
    });
    this.count(entries);
    this.scroll.set(this.items);
    this.stick();
  }

  scrolled() {
    if (this.view.scrollTop < rowHeight()) this.seen();
    this.stick();
  }

  /** Keep the head of the group at the top of the list, until the next one pushes it away. */
  stick() {
    const { scrollTop } = this.view;
    const { tops } = this.scroll;
    let at = this.items.length ? this.scroll.indexAt(scrollTop) : -1;
    const next = this.items.findIndex((item, index) => index > at && item.name);
    while (at >= 0 && !this.items[at].name) at -= 1;
    this.sticky.hidden = at < 0 || scrollTop <= 0;
    if (this.sticky.hidden) return;
    const name = this.items[at].name;
    if (this.sticky.firstElementChild.textContent !== name) this.sticky.firstElementChild.textContent = name;
    this.sticky.style.transform = `translateY(${next < 0 ? 0 : Math.min(0, tops[next] - scrollTop - HEAD)}px)`;
  }

  /** The number of new entries above the visible part. */
  count(entries) {
    const ids = new Set(entries.map((entry) => entry.id));
    if (this.known && this.view.scrollTop >= rowHeight()) {
      const first = entries.findIndex((entry) => this.known.has(entry.id));
      if (first > 0) this.fresh += first;
    } else this.fresh = 0;
    this.known = ids;
    this.say();
  }

  say() {
    this.news.hidden = !this.fresh;
    this.news.textContent = this.fresh === 1 ? "1 new entry" : `${this.fresh} new entries`;
  }

  seen() {
    this.fresh = 0;
    this.say();
  }

  top() {
    this.view.scrollTop = 0;
    this.seen();
  }

  /** Start again at the top: another filter is another list. */
  restart() {
    this.known = null;
    this.view.scrollTop = 0;
    this.seen();
  }

  /** The id of the entry `step` rows from another one. */
  beside(id, step) {
    const rows = this.items.filter((item) => !item.name);
    const at = rows.findIndex((item) => item.key === id);
    return (at < 0 ? rows[0] : rows[Math.min(rows.length - 1, Math.max(0, at + step))])?.key ?? null;
  }

  reveal(id, { focus = false } = {}) {
    const element = this.scroll.reveal(id);
    if (focus) element?.querySelector("a")?.focus({ preventScroll: true });
  }
}

/** A listener that drops the second click of a double click if the first removed its row, and the row below slid under the pointer. */
function dropSlidClicks() {
  let before = { time: -Infinity };
  return (event) => {
    const { clientX: x, clientY: y, target } = event;
    const now = { x, y, id: target.closest(".row")?.dataset.id, time: performance.now() };
    const isNear = Math.hypot(x - before.x, y - before.y) < SAME_PLACE;
    if (isNear && now.id !== before.id && now.time - before.time < DOUBLE_CLICK) {
      event.stopPropagation();
      event.preventDefault();
    }
    before = now;
  };
}

/** The group of an entry: a deadline, the pinned ones, a workspace, or a day. */
function groupOf(room) {
  if (room === "questions") return (entry) => (entry.question?.deadline ? "With a deadline" : "Without a deadline");
  const name = settings().group === "workspace" ? (entry) => entry.workspaceLabel : (entry) => day(entry.activeTs);
  return (entry) => (entry.pinned && entry.state === "inbox" && room === "inbox" ? "Pinned" : name(entry));
}

/** Group the rows. Days are in order. Workspaces are ordered by their newest entry. */
function grouped(entries, name, room) {
  const groups = new Map();
  for (const entry of entries) {
    const of = name(entry);
    if (!groups.has(of)) groups.set(of, []);
    groups.get(of).push(entry);
  }
  return [...groups].flatMap(([of, some]) => [
    { key: `group ${of}`, height: HEAD, name: of },
    ...some.map((entry) => ({ key: entry.id, height: rowHeight(asksInRow(entry, room)), entry })),
  ]);
}
