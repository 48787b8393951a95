// The list of entries: groups and rows. Only the visible ones are in the page.

import { fill, h } from "../lib/dom.js";
import { Scroll } from "../lib/scroll.js";
import { grouped, head, headWords, patchHead, toggleFold } from "./groups.js";
import { patchRow, row, rowHeight } from "./row.js";

const TICK = 20_000; // milliseconds between updates of relative times
const DOUBLE_CLICK = 400; // milliseconds
const SAME_PLACE = 8; // pixels
const ROW_PARTS = ["entry", "cursor", "open", "selected", "hit", "query", "height", "group", "named", "hidden"];
const HEAD_PARTS = ["name", "height", "folds", "folded", "count", "unread"];

export class List {
  constructor({ room, act, nearEnd }) {
    this.room = room;
    this.act = act;
    this.selected = new Set();
    this.query = "";
    this.hit = null; // a pattern of the words that are marked
    this.ticking = setInterval(() => this.tick(), TICK);
    this.items = []; // what is shown
    this.all = []; // with the rows of folded groups
    this.known = null; // ids that were there before, to tell what is new above
    this.list = h("ul");
    this.news = h("button.news", { type: "button", hidden: true, onclick: () => this.top() });
    this.view = h("div", { id: "entries", tabindex: "-1" }, this.list);
    this.view.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.view.addEventListener("click", dropSlidClicks(), { capture: true });
    this.sticky = h("div.group.sticky", { "aria-hidden": "true", hidden: true }, h("h3")); // the name of the group at the top
    this.sticky.addEventListener("click", () => this.toggle(this.stuck.key));
    this.sticky.addEventListener("wheel", ({ deltaY }) => this.view.scrollBy(0, deltaY), { passive: true });
    this.element = h("div.list", {}, this.news, this.view, this.sticky);
    this.scroll = new Scroll(this.view, this.list, {
      make: (item) => this.make(item),
      patch: (element, item) => this.patch(element, item),
      nearEnd: () => this.all.some((item) => item.hidden) || nearEnd(), // else a short list would load every entry
    });
    this.fresh = 0;
  }

  make(item) {
    return item.name ? head(item, (key) => this.toggle(key)) : row(item, this.act);
  }

  patch(element, item) {
    if (item.name) patchHead(element, item, (key) => this.toggle(key));
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
      const same = old && (item.name ? HEAD_PARTS : ROW_PARTS).every((name) => old[name] === item[name]);
      return same ? old : item;
    };
    const { room, query, hit } = this;
    const place = this.rows().findIndex((item) => item.key === cursor);
    this.all = grouped(entries, { room, searches: this.searches, more: this.more }).map((item) => {
      const states = { room, query, hit, cursor: item.key === cursor, open: item.key === open, selected: this.selected.has(item.key) };
      return same(item.name ? item : { ...item, ...states });
    });
    this.items = this.all.filter((item) => !item.hidden);
    if (place >= 0 && !entries.some((entry) => entry.id === cursor)) this.left = { id: cursor, place };
    this.count(entries);
    this.scroll.set(this.items);
    this.stick();
  }

  /** Fold or unfold a group. What is hidden is no longer chosen. */
  toggle(key) {
    toggleFold(key);
    for (const item of this.all) if (item.group === key) this.selected.delete(item.key);
    this.act.folded();
    this.scroll.reveal(key);
  }

  /** Unfold the group of an entry. */
  unfold(id) {
    const item = this.all.find(({ key }) => key === id);
    if (item?.hidden) this.toggle(item.group);
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
    if (this.stuck !== this.items[at]) {
      this.stuck = this.items[at];
      this.sticky.toggleAttribute("data-folds", this.stuck.folds);
      fill(this.sticky.firstElementChild, headWords(this.stuck));
    }
    this.sticky.style.transform = `translateY(${next < 0 ? 0 : Math.min(0, tops[next] - scrollTop - this.stuck.height)}px)`;
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

  rows() {
    return this.all.filter((item) => !item.name);
  }

  /**
   * The id of the entry that is shown next to another one, before (-1) or after it (1); at the end, that one itself. Beside one that has
   * left the list are those around its place.
   */
  beside(id, step) {
    const rows = this.rows();
    const from = rows.findIndex((item) => item.key === id);
    const hasLeft = from < 0 && this.left && this.left.id === id;
    let at = from >= 0 ? from + step : hasLeft ? Math.min(rows.length - 1, Math.max(0, this.left.place + Math.min(step, 0))) : 0;
    while (rows[at]?.hidden) at += from < 0 ? 1 : step;
    return (rows[at] ?? (rows[from]?.hidden ? null : rows[from]))?.key ?? null;
  }

  isHidden(id) {
    return this.all.some((item) => item.key === id && item.hidden);
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
