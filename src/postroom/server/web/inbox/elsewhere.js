// Hits of a search in threads and mail, below the list of entries.

import { get } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { address } from "../lib/router.js";
import { full, short, when } from "../lib/time.js";
import { icon } from "../parts/icons.js";

const MOST = 20; // of each kind
const NAMES = { thread: "Thread", mail: "Mail" };

/** The threads and mails that contain every word. */
export const searchRooms = (words, limit = MOST) => get(`/api/search?${new URLSearchParams({ q: words, limit })}`);

/** Where a hit is shown. */
export const placeOf = (hit) => (hit.kind === "thread" ? address("threads", hit.threadId) : address("mailboxes", hit.session));

/** A section that follows the words of a search. */
export class Elsewhere {
  constructor(changed) {
    this.changed = changed;
    this.words = "";
    this.hits = [];
    this.element = h("section.elsewhere", { "aria-label": "Threads and mail", hidden: true });
  }

  async show(words) {
    if (words === this.words) return;
    this.words = words;
    const found = words ? await searchRooms(words).catch(() => ({ hits: [], since: null })) : { hits: [], since: null };
    if (words !== this.words) return; // other words meanwhile
    this.hits = found.hits;
    this.element.hidden = !found.hits.length && !found.since;
    fill(this.element, h("h3", {}, "Threads and mail"), h("ul", {}, found.hits.map(line)), found.since && looked(found));
    this.changed();
  }
}

function line(hit) {
  return h(
    "li",
    {},
    h(
      "a",
      { href: placeOf(hit) },
      icon(hit.kind === "thread" ? "threads" : "mailboxes"),
      h(
        "span.what",
        {},
        h("span.title", { dir: "auto" }, h("span.unseen", {}, `${NAMES[hit.kind]}: `), hit.title),
        h("span.words", { dir: "auto" }, `${hit.from}: ${hit.text}`),
      ),
      h("time", { title: full(when(hit.at)) }, short(when(hit.at))),
    ),
  );
}

const looked = ({ hits, since }) =>
  h(
    "p.soft.small",
    {},
    `${hits.length ? "Older" : "Nothing in the newest threads and mail. Older"} ones than ${full(when(since))} were not searched.`,
  );
