// The entries that the page has loaded. Events and the person's actions update them.
// A change is shown at once and sent to the server. If it fails, it is reverted and an error is shown.

import { at, get, getIfChanged, put, remove } from "../lib/api.js";
import { oneAtATime } from "../lib/once.js";
import { isPending, later } from "../lib/pending.js";
import { failed } from "../parts/toast.js";
import { Moves } from "./moves.js";

const PAGE = 100;
const RETRY_MILLISECONDS = 3000;
const MOST_IN_GROUPS = 2000; // grouped by workspace, only this many of the newest are loaded
const MOST_TO_FIND = 5000; // until an entry that was opened by its address is in the list
const ONE_BY_ONE = 8; // if more entries changed at once, the whole list is loaded again
const MOVES = { "entry.done": "done", "entry.snoozed": "snoozed", "entry.reopened": "inbox", "entry.woken": "inbox" };
const NOTHING_CHOSEN = { unread: false, open: false, workspace: "", words: "", state: "inbox" };

/** The id of the entry in whose row an event is shown. */
export const matterOf = (event) => event.payload?.root_id ?? event.message_id;

/**
 * What a row shows, as the server has it for lists: of the open questions of a matter the most urgent, else the latest; and the words of
 * the part that asks it, else of the newest one.
 */
export function rowOf({ entry, parts = [] }) {
  const asks = [entry, ...parts].map((each) => each.question).filter(Boolean);
  const open = asks.filter(({ state }) => state === "open").sort((one, other) => urgency(one).localeCompare(urgency(other)));
  const question = open[0] ?? asks.at(-1);
  const asking = open[0] && [entry, ...parts].find((each) => each.id === open[0].entryId);
  const shown = asking ?? parts.at(-1) ?? entry;
  const words = shown.comments || (shown.docs ?? []).map((doc) => doc.path.split("/").at(-1)).join(", ");
  return { ...entry, ...(question && { question }), latest: shown.id === entry.id ? undefined : words };
}

const urgency = ({ deadline }) => deadline ?? "9";

export class Entries {
  constructor(room, changed, filter = {}) {
    this.room = room; // "inbox", "notices" or "questions"
    this.changed = changed;
    this.filter = { ...NOTHING_CHOSEN, ...filter };
    this.list = [];
    this.pinned = [];
    this.more = false;
    this.ready = false;
    this.error = null;
    this.reading = null;
    this.retry = null;
    this.outdated = false; // whether entries were created during a request, whose answer may lack them
    this.telling = new Map(); // id → the promise of the last request
    this.marking = new Map(); // id → the readAt shown while the server is being told
    this.meanwhile = new Map(); // id → the readAt of the last event that came during that
    this.moves = new Moves();
    this.forgetTags();
    this.head = oneAtATime(() => this.readHead());
  }

  leave() {
    this.reading?.abort();
    clearTimeout(this.retry);
    this.left = true;
  }

  /** Whether a request for the list is on its way. */
  get readsNow() {
    return Boolean(this.reading) || Boolean(this.headRead);
  }

  get section() {
    return this.room === "notices" ? "notices" : "inbox";
  }

  /** Whether the plain inbox is shown, in which pinned entries come first. */
  get plain() {
    const { unread, open, workspace, words, state } = this.filter;
    return this.room === "inbox" && !unread && !open && !workspace && !words && state === "inbox";
  }

  get shown() {
    const top = this.plain ? this.pinned : [];
    const first = new Set(top.map((entry) => entry.id));
    return [...top, ...this.list.filter((entry) => !first.has(entry.id))].filter((entry) => !isPending(`delete ${entry.id}`));
  }

  find(id) {
    return this.list.find((entry) => entry.id === id) ?? this.pinned.find((entry) => entry.id === id);
  }

  address(before = null, limit = PAGE) {
    const { unread, open, workspace, words, state } = this.filter;
    if (this.room === "questions" && !words) return "/api/inbox/questions?limit=500";
    const query = new URLSearchParams({ limit, section: this.section });
    if (before) query.set("before", before);
    if (unread) query.set("unread", "true");
    if (open || this.room === "questions") query.set("open", "true");
    if (workspace) query.set("workspaceId", workspace);
    if (state !== "all" && this.section === "inbox" && !open && !words) query.set("state", state);
    if (words) query.set("q", words);
    return `/api/inbox/${words ? "search" : "history"}?${query}`;
  }

  /** Load the first page with the current filter. */
  async load(filter = {}) {
    Object.assign(this.filter, filter);
    this.reading?.abort();
    const control = (this.reading = new AbortController());
    this.forgetTags();
    try {
      this.take(...(await this.readTop(control.signal)));
      this.error = null;
    } catch (error) {
      if (error.name === "AbortError") return;
      this.error = error;
    }
    this.ready = true;
    if (this.reading === control) this.endReading();
    this.changed();
  }

  /** The tags belong to the lists as the server gave them. After a change that was made here, they say nothing about what is shown. */
  forgetTags() {
    this.tag = null;
    this.pinnedTag = null;
  }

  readFirst(signal) {
    return getIfChanged(this.address(), this.tag, signal);
  }

  readPinned(signal) {
    if (!this.plain) return { body: { entries: [] }, tag: null };
    return getIfChanged("/api/inbox/history?pinned=true&state=inbox&limit=100", this.pinnedTag, signal);
  }

  /** Read the first page and the pinned entries. Return both, and the moves that they may not have. */
  async readTop(signal) {
    const [top, moves] = await this.moves.read(() => Promise.all([this.readFirst(signal), this.readPinned(signal)]));
    return [...top, moves];
  }

  /** Show what the server answered. An answer without a body says that the list is as it was. */
  take(page, pinned, moves) {
    [this.tag, this.pinnedTag] = [page.tag, pinned.tag];
    if (pinned.body) this.pinned = this.current(pinned.body.entries, moves);
    if (page.body) [this.list, this.more] = [this.current(page.body.entries, moves), page.body.hasMore];
  }

  async loadMore() {
    if (!this.more || this.reading || (this.room === "questions" && !this.filter.words)) return;
    const control = (this.reading = new AbortController());
    try {
      const [page, moves] = await this.moves.read(() => get(this.address(this.list.at(-1)?.id, 500), control.signal));
      const known = new Set(this.list.map((entry) => entry.id));
      const fresh = page.entries.filter((entry) => !known.has(entry.id));
      this.list = [...this.list, ...this.current(fresh, moves)];
      this.more = page.hasMore && fresh.length > 0;
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

  /** Load on until an entry is in the list. Return whether it is. */
  async loadUntil(id) {
    while (!this.find(id) && this.more && this.list.length < MOST_TO_FIND && !this.error && !this.left) {
      if (this.reading) await new Promise((done) => setTimeout(done, 50));
      else await this.loadMore();
    }
    return Boolean(this.find(id));
  }

  /** Apply events. Without events, load the newest page again. */
  async heard(events) {
    const fetched = new Set();
    let anew = !events.length;
    for (const event of events) {
      const { event_type: type, created_at: readAt, source: readBy, payload } = event;
      const id = matterOf(event);
      if (!type.startsWith("entry.")) continue;
      if (type === "entry.created") anew ||= Boolean(payload.root_id) || (payload.section ?? "inbox") === this.section;
      else if (type === "entry.deleted") this.forget(id);
      else if (MOVES[type])
        anew = !this.moved(id, MOVES[type]) || this.readsNow || anew; // an answer on its way may be older than the move
      else if (type === "entry.pinned" || type === "entry.unpinned") anew = true;
      else if (this.room === "questions" && type !== "entry.read" && type !== "entry.unread") anew = true;
      else if (!this.find(id)) continue;
      else if (type === "entry.read") this.hearMark(id, { readAt, readBy });
      else if (type === "entry.unread") this.hearMark(id, { readAt: null, readBy: null });
      else fetched.add(id);
    }
    this.changed();
    if (fetched.size > ONE_BY_ONE) anew = true;
    else await Promise.all([...fetched].map((id) => this.fetch(id)));
    if (anew && (events.length || this.retry)) this.forgetTags();
    if (anew && this.reading) this.outdated = true;
    else if (anew) await this.head();
  }

  hearMark(id, mark) {
    if (this.marking.has(id)) this.meanwhile.set(id, mark.readAt);
    this.replace(id, mark);
  }

  forget(id) {
    this.forgetTags();
    this.list = this.list.filter((entry) => entry.id !== id);
    this.pinned = this.pinned.filter((entry) => entry.id !== id);
  }

  /** An entry changed its state of triage. Return whether nothing has to be loaded for that. */
  moved(id, state) {
    if (this.showsAllStates) return Boolean(this.fetch(id));
    if (state === this.filter.state) return false;
    this.forget(id);
    return true;
  }

  get showsAllStates() {
    return Boolean(this.filter.words) || this.filter.state === "all" || this.room === "questions";
  }

  async fetch(id) {
    const detail = await get(at("api", "inbox", id)).catch(() => ({}));
    if (detail.entry) this.replace(id, rowOf(detail));
    this.changed();
  }

  /** Load the newest page again if it changed, and put it before the known entries. A failed request is tried again. */
  async readHead() {
    const asked = this.address();
    let top;
    this.headRead = true;
    try {
      top = await this.readTop();
    } catch (error) {
      if (!this.list.length) this.error = error;
      this.retry ??= setTimeout(() => this.headAgain(), RETRY_MILLISECONDS);
      return this.changed();
    } finally {
      this.headRead = false;
    }
    const [answer, pinned, moves] = top;
    if (asked !== this.address()) return; // another filter was chosen meanwhile, and its list is on its way
    this.error = null;
    this.ready = true;
    if (this.filter.words || this.room === "questions" || !answer.body) this.take(answer, pinned, moves);
    else {
      this.take({ tag: answer.tag }, pinned, moves);
      this.merge(answer.body, moves);
    }
    this.changed();
  }

  /** Put a newest page before the entries that are older than it. An entry may have moved up since. */
  merge({ entries: newest, hasMore }, moves) {
    const entries = this.current(newest, moves);
    const fresh = new Set(entries.map((entry) => entry.id));
    const isKnown = this.list.some((entry) => fresh.has(entry.id));
    if (!hasMore) [this.list, this.more] = [[...entries, ...this.kept(fresh)], false];
    else if (!isKnown)
      [this.list, this.more] = [entries, true]; // so much is new that the rest is read anew
    else {
      const last = entries.at(-1);
      const older = this.list.filter((entry) => !fresh.has(entry.id) && entry.activeTs <= last.activeTs);
      this.more ||= !older.length;
      this.list = [...entries, ...older];
    }
  }

  headAgain() {
    this.retry = null;
    this.forgetTags();
    this.head();
  }

  /** With a filter, an entry that no longer matches stays visible until the filter is chosen again. */
  kept(fresh) {
    return this.filter.unread || this.filter.open ? this.list.filter((entry) => !fresh.has(entry.id)) : [];
  }

  replace(id, changes) {
    const changed = (entry) => (entry.id === id ? this.withMark({ ...entry, ...changes }) : entry);
    this.list = this.list.map(changed);
    this.pinned = this.pinned.map(changed);
  }

  /**
   * Entries as the server has them, except that a mark on its way to the server is shown as this person set it, and that those are left out
   * which were moved elsewhere: `moves` has what this answer may not have.
   */
  current(entries, moves) {
    const isElsewhere = ({ id }) => moves.has(id) && moves.get(id) !== this.filter.state && !this.showsAllStates;
    return entries.filter((entry) => !isElsewhere(entry)).map((entry) => this.withMark(entry));
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
    if (this.telling.get(id) !== told) return true; // a later mark is on its way
    this.marking.delete(id);
    const other = this.meanwhile.get(id);
    this.meanwhile.delete(id);
    if (outcome) this.replace(id, { readAt: outcome.readAt, readBy: outcome.readBy });
    this.changed();
    // Somebody else marked it after this person, and their event came before this answer.
    if (other !== undefined && Boolean(other) !== Boolean(outcome?.readAt)) await this.fetch(id);
    return true;
  }

  /** Move an entry to the inbox, to the done ones or to the snoozed ones. It leaves this list at once, if it does not belong there. */
  async move(id, state, until = null) {
    const before = [this.list, this.pinned];
    if (!this.moved(id, state)) this.replace(id, { state, snoozedUntil: until });
    this.changed();
    try {
      await this.moves.tell(id, state, () =>
        this.inTurn(id, () => put(at("api", "inbox", id, "state"), until ? { state, until } : { state })),
      );
    } catch (error) {
      [this.list, this.pinned] = before;
      failed("It could not be moved.", error);
      this.changed();
      this.headAgain(); // what came since
    }
  }

  async pin(id, pinned) {
    this.forgetTags();
    this.replace(id, { pinned });
    const entry = this.find(id);
    this.pinned = pinned && entry ? [entry, ...this.pinned] : this.pinned.filter((each) => each.id !== id);
    this.changed();
    await this.inTurn(id, () => (pinned ? put : remove)(at("api", "inbox", id, "pin"))).catch((error) =>
      failed(pinned ? "It could not be pinned." : "It could not be unpinned.", error),
    );
    this.head();
  }

  /** Send the requests about one entry one after another: a request could overtake another. */
  inTurn(id, act) {
    const told = (this.telling.get(id) ?? Promise.resolve()).catch(() => {}).then(act);
    this.telling.set(id, told);
    return told;
  }

  /** Delete an entry: hidden at once, sent to the server when the undo has expired. */
  delete(id, back) {
    const send = async (leaving) => {
      try {
        await remove(at("api", "inbox", id), { keepalive: leaving });
        this.forget(id);
      } catch (error) {
        if (error.status !== 404) failed("It could not be deleted.", error, { kept: false });
      }
      this.changed();
    };
    later(`delete ${id}`, "Deleted", { send, after: DELETE_MILLISECONDS, back: () => (this.changed(), back?.(id)) });
    this.changed();
  }
}

const DELETE_MILLISECONDS = 6000;
