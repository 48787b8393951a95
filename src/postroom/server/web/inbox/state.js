// The entries that the page has loaded. Events and the person's actions update them.
// A change is shown at once and sent to the server. If it fails, it is reverted and an error is shown.

import { at, get, put, remove } from "../lib/api.js";
import { oneAtATime } from "../lib/once.js";
import { failed, toast, UNDO_MILLISECONDS } from "../parts/toast.js";

const PAGE = 100;
const RETRY_MILLISECONDS = 3000;
const MOST_IN_GROUPS = 2000; // grouped by workspace, only this many of the newest are loaded
const ONE_BY_ONE = 8; // if more entries changed at once, the whole list is loaded again

export class Entries {
  constructor(section, changed) {
    this.section = section;
    this.changed = changed;
    this.filter = { unread: false, open: false, workspace: "", words: "" };
    this.list = [];
    this.more = false;
    this.ready = false;
    this.error = null;
    this.leaving = new Map(); // id → {entry, timer}: deleted here, and not yet sent
    this.reading = null;
    this.retry = null;
    this.outdated = false; // whether entries were created during a request, whose answer may lack them
    this.telling = new Map(); // id → the promise of the last request
    this.marking = new Map(); // id → the readAt shown while the server is being told
    this.head = oneAtATime(() => this.readHead());
    this.flush = () => this.tellAll();
    window.addEventListener("pagehide", this.flush);
  }

  leave() {
    this.reading?.abort();
    clearTimeout(this.retry);
    this.tellAll();
    window.removeEventListener("pagehide", this.flush);
  }

  get shown() {
    return this.leaving.size ? this.list.filter((entry) => !this.leaving.has(entry.id)) : this.list;
  }

  find(id) {
    return this.list.find((entry) => entry.id === id);
  }

  address(before = null, limit = PAGE) {
    const { unread, open, workspace, words } = this.filter;
    if (words) return `/api/inbox/search?${new URLSearchParams({ q: words, limit: 500 })}`;
    const query = new URLSearchParams({ limit, section: this.section });
    if (before) query.set("before", before);
    if (unread) query.set("unread", "true");
    if (open) query.set("open", "true");
    if (workspace) query.set("workspaceId", workspace);
    return `/api/inbox/history?${query}`;
  }

  /** The search results that match the other filters. */
  sifted(entries) {
    const { unread, open, workspace, words } = this.filter;
    if (!words) return entries;
    const here = (entry) => (entry.kind === "notice") === (this.section === "notices");
    return entries.filter(
      (entry) =>
        here(entry) &&
        !(unread && entry.readAt) &&
        !(open && entry.question?.state !== "open") &&
        !(workspace && entry.workspaceId !== workspace),
    );
  }

  /** Load the first page with the current filter. */
  async load(filter = {}) {
    Object.assign(this.filter, filter);
    this.reading?.abort();
    const control = (this.reading = new AbortController());
    try {
      const page = await get(this.address(), control.signal);
      this.list = this.sifted(this.withMarks(page.entries));
      this.more = page.hasMore && !this.filter.words;
      this.error = null;
    } catch (error) {
      if (error.name === "AbortError") return;
      this.error = error;
    }
    this.ready = true;
    if (this.reading === control) this.endReading();
    this.changed();
  }

  async loadMore() {
    if (!this.more || this.reading) return;
    const control = (this.reading = new AbortController());
    try {
      const page = await get(this.address(this.list.at(-1)?.id, 500), control.signal);
      const known = new Set(this.list.map((entry) => entry.id));
      this.list = [...this.list, ...this.withMarks(page.entries.filter((entry) => !known.has(entry.id)))];
      this.more = page.hasMore;
    } catch (error) {
      if (error.name === "AbortError") return;
      this.more = false;
      failed("The rest could not be read.", error);
    }
    this.endReading();
    this.changed();
  }

  /** A request has ended. If entries were created meanwhile, load the newest page again. */
  endReading() {
    this.reading = null;
    if (!this.outdated) return;
    this.outdated = false;
    this.head();
  }

  async loadForGroups() {
    while (this.more && this.list.length < MOST_IN_GROUPS && !this.error) await this.loadMore();
  }

  /** Apply events. Without events, load the newest page again. */
  async heard(events) {
    const fetched = new Set();
    let anew = !events.length;
    for (const { event_type: type, message_id: id, created_at: readAt, source: readBy, payload } of events) {
      if (!type.startsWith("entry.")) continue;
      if (type === "entry.created") anew ||= (payload.section ?? "inbox") === this.section;
      else if (type === "entry.deleted") this.list = this.list.filter((entry) => entry.id !== id);
      else if (!this.find(id)) continue;
      else if (type === "entry.read") this.replace(id, { readAt, readBy });
      else if (type === "entry.unread") this.replace(id, { readAt: null, readBy: null });
      else fetched.add(id);
    }
    this.changed();
    if (fetched.size > ONE_BY_ONE) anew = true;
    else await Promise.all([...fetched].map((id) => this.fetch(id)));
    if (anew && this.reading) this.outdated = true;
    else if (anew) await this.head();
  }

  async fetch(id) {
    const { entry } = await get(at("api", "inbox", id)).catch(() => ({}));
    if (entry) this.replace(id, entry);
    this.changed();
  }

  /** Load the newest page again, and put it before the known entries. */
  async readHead() {
    if (this.filter.words) return this.load();
    let page;
    try {
      page = await get(this.address());
    } catch (error) {
      if (!this.list.length) this.error = error;
      this.retry ??= setTimeout(() => this.headAgain(), RETRY_MILLISECONDS); // the first request after a restart may fail
      return this.changed();
    }
    this.error = null;
    this.ready = true;
    const entries = this.withMarks(page.entries);
    const fresh = new Set(entries.map((entry) => entry.id));
    const at = this.list.findLastIndex((entry) => fresh.has(entry.id));
    if (page.hasMore && at < 0)
      [this.list, this.more] = [entries, true]; // so much is new that the rest is read anew
    else this.list = page.hasMore ? [...entries, ...this.list.slice(at + 1)] : [...entries, ...this.kept(fresh)];
    this.more = page.hasMore && (this.more || at < 0 || this.list.length === entries.length);
    this.changed();
  }

  headAgain() {
    this.retry = null;
    this.head();
  }

  /** With a filter, an entry that no longer matches stays visible until the filter is chosen again. */
  kept(fresh) {
    return this.filter.unread || this.filter.open ? this.list.filter((entry) => !fresh.has(entry.id)) : [];
  }

  replace(id, changes) {
    this.list = this.list.map((entry) => (entry.id === id ? this.withMark({ ...entry, ...changes }) : entry));
  }

  /** Entries as the server has them, except that a mark on its way to the server is shown as this person set it. */
  withMarks(entries) {
    return this.marking.size ? entries.map((entry) => this.withMark(entry)) : entries;
  }

  withMark(entry) {
    return this.marking.has(entry.id) ? { ...entry, readAt: this.marking.get(entry.id) } : entry;
  }

  /** Mark as read or unread at once. Return whether that changed anything. */
  async mark(id, read) {
    const before = this.find(id);
    if (before && Boolean(before.readAt) === read) return false;
    this.marking.set(id, read ? new Date().toISOString() : null);
    this.replace(id, {});
    this.changed();
    const told = this.inTurn(id, () => (read ? put : remove)(at("api", "inbox", id, "read")));
    let outcome = before;
    try {
      outcome = (await told).entry;
    } catch (error) {
      failed(read ? "It could not be marked as read." : "It could not be marked as unread.", error);
    }
    if (this.telling.get(id) === told) this.marking.delete(id); // else a later mark is on its way
    if (outcome) this.replace(id, outcome);
    this.changed();
    return true;
  }

  /** Send the requests about one entry one after another: a request could overtake another. */
  inTurn(id, act) {
    const told = (this.telling.get(id) ?? Promise.resolve()).catch(() => {}).then(act);
    this.telling.set(id, told);
    return told;
  }

  /** Delete an entry: hidden at once, sent to the server when the undo has expired. */
  delete(id, back) {
    const entry = this.find(id) ?? { id };
    const told = () => this.tell(id);
    const undo = () => {
      this.leaving.delete(id);
      this.changed();
      back?.(id);
    };
    this.leaving.set(id, entry);
    this.changed();
    toast("Deleted", { undo, after: UNDO_MILLISECONDS, done: told });
  }

  async tell(id) {
    const entry = this.leaving.get(id);
    if (!entry) return;
    try {
      await remove(at("api", "inbox", id));
      this.list = this.list.filter((each) => each.id !== id);
    } catch (error) {
      if (error.status !== 404) failed("It could not be deleted.", error);
    }
    this.leaving.delete(id);
    this.changed();
  }

  /** Send the pending deletions now, because the page is closing. The requests outlive the page. */
  tellAll() {
    for (const id of this.leaving.keys()) remove(at("api", "inbox", id), { keepalive: true }).catch(() => {});
    this.leaving.clear();
  }
}
