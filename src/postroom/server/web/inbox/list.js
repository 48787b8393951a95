// The list of entries: groups and rows. Only the visible ones are in the page.

import { fill, h } from "../lib/dom.js";
import { Scroll } from "../lib/scroll.js";
import { settings } from "../lib/settings.js";
import { day } from "../lib/time.js";
import { patchRow, row, ROW } from "./row.js";

const HEAD = 36;

export class List {
  constructor({ room, remove, nearEnd }) {
    this.room = room;
    this.remove = remove;
    this.items = [];
    this.known = null; // ids that were there before, to tell what is new above
    this.list = h("ul");
    this.news = h("button.news", { type: "button", hidden: true, onclick: () => this.top() });
    this.view = h("div", { id: "entries", tabindex: "-1" }, this.list);
    this.view.addEventListener("scroll", () => this.view.scrollTop < ROW && this.seen(), { passive: true });
    this.element = h("div.list", {}, this.news, this.view);
    this.scroll = new Scroll(this.view, this.list, {
      make: (item) => this.make(item),
      patch: (element, item) => this.patch(element, item),
      nearEnd,
    });
    this.fresh = 0;
  }

  make(item) {
    return item.name ? h("li.group", {}, h("h3", {}, item.name)) : row(item, this.remove);
  }

  patch(element, item) {
    if (item.name) fill(element, h("h3", {}, item.name));
    else patchRow(element, item, this.remove);
  }

  /** Show entries, with the one under the cursor and the one that is open. */
  show(entries, { cursor, open }) {
    const before = new Map(this.items.map((item) => [item.key, item]));
    const same = (item) => {
      const old = before.get(item.key);
      return old && old.entry === item.entry && old.cursor === item.cursor && old.open === item.open && old.name === item.name ? old : item;
    };
    const group = settings().group === "workspace" ? (entry) => entry.workspaceLabel : (entry) => day(entry.ts);
    this.items = grouped(entries, group).map((item) =>
      same(item.name ? item : { ...item, room: this.room, cursor: item.key === cursor, open: item.key === open }),
    );
    this.count(entries);
    this.scroll.set(this.items);
  }

  /** The number of new entries above the visible part. */
  count(entries) {
    const ids = new Set(entries.map((entry) => entry.id));
    if (this.known && this.view.scrollTop >= ROW) {
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

/** Group the rows. Days are in order. Workspaces are ordered by their newest entry. */
function grouped(entries, name) {
  const groups = new Map();
  for (const entry of entries) {
    const of = name(entry);
    if (!groups.has(of)) groups.set(of, []);
    groups.get(of).push(entry);
  }
  return [...groups].flatMap(([of, some]) => [
    { key: `group ${of}`, height: HEAD, name: of },
    ...some.map((entry) => ({ key: entry.id, height: ROW, entry })),
  ]);
}
