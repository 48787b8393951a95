// One entry: its documents, comments, question, conversation and receipts. A part is redrawn only when it has
// changed, so that nothing jumps and typed text is kept.

import { at, get, post } from "../lib/api.js";
import { fill, h, safe } from "../lib/dom.js";
import { oneAtATime } from "../lib/once.js";
import { clock, full, when } from "../lib/time.js";
import { icon } from "../parts/icons.js";
import { trouble } from "../parts/state.js";
import { failed, toast } from "../parts/toast.js";
import { documentOf } from "./documents.js";
import { questionOf } from "./question.js";
import { replyBar, send } from "./reply.js";
import { unverified } from "./row.js";

const LOOK_FOR_SEEN = 5000; // an agent that reads a thread says nothing: so it is looked for
const STEPS = {
  stored: "Stored",
  offered: "Listed",
  seen: "Opened",
  answered: "Answered",
  default: "Silence took the default",
  refused: "Silence refused",
  ended: "Not asked any more",
  escalated: "Escalated",
  reply_stored: "Reply stored",
  reply_offered: "Reply offered",
  reply_seen: "Reply seen",
};

export class Detail {
  constructor(id, { close, remove, unread, workspaces, loaded }) {
    Object.assign(this, { id, close, remove, unread, workspaces, loaded });
    this.parts = new Map(); // name → [what it was made of, element]
    this.documents = [];
    this.detail = null;
    const sending = async (text) => Boolean(await send(id, text).then((answer) => answer && this.load().then(() => answer)));
    this.bar = replyBar(`entry:${id}`, { sending });
    this.loading = h("div.scroll", {}, h("div.ghost.title"), h("div.ghost.block"));
    this.element = h("article", { id: "detail", "data-id": id, tabindex: "-1", "aria-busy": "true" }, this.loading, this.bar);
    this.timer = setInterval(() => this.waits() && this.load(), LOOK_FOR_SEEN);
    this.focused = () => document.hidden || this.lookAtDocuments();
    window.addEventListener("focus", this.focused);
    this.load = oneAtATime(() => this.read());
    this.load();
  }

  leave() {
    clearInterval(this.timer);
    window.removeEventListener("focus", this.focused);
    this.gone = true;
  }

  /** Whether a reply was sent that the agent has not seen yet. */
  waits() {
    return !document.hidden && this.detail?.replies.some((reply) => !this.seen(reply));
  }

  async read() {
    try {
      this.detail = await get(`${at("api", "inbox", this.id)}?html=true`);
    } catch (error) {
      if (!this.gone && !this.body)
        fill(this.loading, this.head(null), error.status === 404 ? missing(this.close) : trouble(error, () => this.load()));
      this.bar.hidden = !this.body;
      this.element.ariaBusy = "false";
      return;
    }
    if (this.gone) return;
    this.bar.hidden = false;
    this.element.ariaBusy = "false";
    this.draw();
    this.loaded(this.detail.entry);
  }

  draw() {
    const { entry, replies, receipts, html } = this.detail;
    const workspace = this.workspaces().find((known) => known.workspace_id === entry.workspaceId);
    if (!this.body) this.begin(entry);
    this.part("head", [entry.workspaceLabel, entry.ts, entry.from, entry.threadId, workspace?.focus], () => this.head(entry, workspace));
    this.part("comments", html.comments, () => html.comments && safe("section.comments.markdown", html.comments));
    this.part("question", entry.question, () => entry.question && questionOf(entry, (choice) => this.answer(choice)));
    this.part("conversation", [replies, receipts], () => this.conversation(replies));
    this.part("receipts", receipts, () => hops(receipts));
    this.lookAtDocuments();
  }

  /** The frame with the containers of the parts and the documents. */
  begin(entry) {
    this.documents = (entry.docs ?? []).map((doc) => documentOf(entry, doc.path));
    const place = (name) => {
      const element = h("div.part", { "data-part": name });
      this.parts.set(name, [undefined, element]);
      return element;
    };
    this.body = h(
      "div.scroll",
      { tabindex: "-1" },
      place("head"),
      this.documents.map(({ element }) => element),
      place("comments"),
      place("question"),
      place("conversation"),
      place("receipts"),
    );
    this.bar.querySelector("textarea").placeholder = `Reply to ${entry.from || entry.workspaceLabel}…`;
    this.loading.replaceWith(this.body);
  }

  part(name, madeOf, make) {
    const [before, element] = this.parts.get(name);
    const now = JSON.stringify(madeOf ?? null);
    if (before === now) return;
    const open = element.querySelector("details")?.open;
    fill(element, make());
    if (open) element.querySelector("details")?.setAttribute("open", "");
    this.parts.set(name, [now, element]);
  }

  head(entry, workspace) {
    const back = h("button.icon-button.back", { type: "button", "aria-label": "Back", onclick: this.close }, icon("back"));
    if (!entry) return h("header.head", {}, back);
    const focus =
      workspace?.focus &&
      h("button", { type: "button", onclick: () => this.focus(workspace) }, icon("terminal"), h("span", {}, "Open session"));
    const thread = entry.threadId && h("a", { href: `/threads/${encodeURIComponent(entry.threadId)}` }, "Thread");
    const said = [
      entry.from && `${entry.from} · `,
      unverified(entry) && [unverified(entry), " "],
      h("time", { datetime: new Date(entry.ts).toISOString(), title: full(entry.ts) }, clock(entry.ts)),
    ];
    const act = (name, picture, done) =>
      h("button.icon-button", { type: "button", "aria-label": name, title: name, onclick: done }, icon(picture));
    const titles = h("div.titles", {}, h("h1", {}, entry.workspaceLabel), h("p.soft", {}, said, thread && [" · ", thread]));
    return h(
      "header.head",
      {},
      back,
      titles,
      focus,
      act("Mark as unread", "unread", this.unread),
      act("Delete this entry", "trash", this.remove),
    );
  }

  async focus(workspace) {
    try {
      await post(at("api", "workspaces", workspace.workspace_id, "focus"));
      toast("The session is open");
    } catch (error) {
      failed("The session could not be opened:", error);
    }
  }

  /** Choose an answer by its button or its number. */
  async answer(choice) {
    for (const button of this.element.querySelectorAll(".choices button")) button.disabled = true;
    await send(this.id, choice, `choice:${this.id}`);
    await this.load();
    for (const button of this.element.querySelectorAll(".choices button")) button.disabled = false;
  }

  choose(number) {
    const { question } = this.detail?.entry ?? {};
    if (question?.state !== "open" || !question.choices[number - 1]) return false;
    this.answer(question.choices[number - 1]);
    return true;
  }

  seen(reply) {
    return this.detail.receipts.find((receipt) => receipt.step === "reply_seen" && receipt.reply === reply.id);
  }

  conversation(replies) {
    if (!replies.length) return null;
    return h(
      "ol.conversation",
      { "aria-label": "Conversation" },
      replies.map((reply) => {
        const seen = this.seen(reply);
        const told = seen ? `Seen by ${seen.by} · ${clock(when(seen.at))}` : "Not seen yet";
        return h(
          "li.said",
          {},
          h(
            "p.who",
            {},
            h("strong", {}, reply.from),
            reply.verified ? null : h("span.badge", { title: "It came by a door at which nobody vouched for who spoke" }, "unverified"),
            h("time.soft", { title: full(when(reply.at)) }, clock(when(reply.at))),
          ),
          h("p.text", {}, reply.body),
          h("p.seen", { "data-seen": String(Boolean(seen)) }, told),
        );
      }),
    );
  }

  lookAtDocuments() {
    for (const document of this.documents) document.look();
  }

  reply() {
    this.element.querySelector("textarea")?.focus();
  }
}

function hops(receipts) {
  return h(
    "details.receipts",
    {},
    h("summary", {}, "Receipts"),
    h(
      "ol",
      {},
      receipts.map(({ step, at: stamp, by, door }) =>
        h(
          "li",
          {},
          h("time", { title: full(when(stamp)) }, clock(when(stamp))),
          h("span", {}, STEPS[step] ?? step),
          h("span.soft", {}, [by && `by ${by}`, door && `through ${door}`].filter(Boolean).join(" ")),
        ),
      ),
    ),
  );
}

function missing(close) {
  return h(
    "div.empty",
    {},
    h("h2", {}, "This entry is not there"),
    h("p", {}, "It may have been deleted."),
    h("div.actions", {}, h("button", { type: "button", onclick: close }, "Back to the inbox")),
  );
}
