// One matter: the documents, comments and question of an entry, then what its agent added and what people replied, in order. A part is
// redrawn only when it has changed, so that nothing jumps and typed text is kept.

import { at, getIfChanged, post } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { oneAtATime } from "../lib/once.js";
import { isPending, onPending, pendingOf } from "../lib/pending.js";
import { keptReplyTo } from "../lib/settings.js";
import { clock, full, when } from "../lib/time.js";
import { dialog } from "../parts/dialog.js";
import { icon } from "../parts/icons.js";
import { commandWords, trouble } from "../parts/state.js";
import { failed, toast } from "../parts/toast.js";
import { documentOf } from "./documents.js";
import { jumpToQuestion } from "./jump.js";
import { markdown } from "./markdown.js";
import { NumberedQuestion } from "./numbered.js";
import { forgetProposal, mayChoose, NAMES, questionOf } from "./question.js";
import { replyBar, sendLater } from "./reply.js";
import { receiptsOf, seenStep, threadBefore } from "./record.js";
import { unverified } from "./row.js";

const LOOK_FOR_SEEN = 5000; // an agent that reads a thread says nothing: so it is looked for
const FOLLOW_FILES = 2000; // milliseconds between looks at the open documents
const MOST_OPEN = 5; // documents of one push; the others show their heads
const newVisit = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

export class Detail {
  /** `act` has what the buttons of the head do: {close, remove, unread, done, snooze, pin}. */
  constructor(id, { act, known, workspaces, loaded, edited, readPerson }) {
    Object.assign(this, { id, toDo: act, known, workspaces, loaded, edited, readPerson });
    this.parts = new Map(); // name → [what it was made of, element]
    this.documents = [];
    this.detail = null;
    this.bar = replyBar(`entry:${id}`, { sending: (text) => this.send(text), before: this.sessionButton() });
    this.bar.addEventListener("click", (event) => event.target === this.bar && this.openSession());
    this.body = h("div.scroll", { tabindex: "0", "aria-label": "Entry", role: "region" }, h("div.ghost.title"), h("div.ghost.block"));
    this.jump = jumpToQuestion(this.body);
    this.numbered = new NumberedQuestion();
    this.element = h(
      "article",
      { id: "detail", "data-id": id, tabindex: "-1", "aria-busy": "true" },
      this.body,
      this.jump.element,
      this.bar,
    );
    this.timers = [
      setInterval(() => this.waits() && this.load(), LOOK_FOR_SEEN),
      setInterval(() => document.hidden || this.lookAtDocuments(), FOLLOW_FILES),
    ];
    this.visit = newVisit();
    this.turned = () => document.hidden && (this.visit = newVisit()); // who comes back reads again
    document.addEventListener("visibilitychange", this.turned);
    this.stop = onPending(() => this.detail && this.draw());
    this.load = oneAtATime(() => this.read());
    this.load();
  }

  leave() {
    this.timers.forEach(clearInterval);
    this.stop();
    document.removeEventListener("visibilitychange", this.turned);
    this.gone = true;
  }

  focus() {
    this.body.focus({ preventScroll: true });
  }

  /** Whether a reply was sent that the agent has not seen yet. */
  waits() {
    return !document.hidden && this.detail?.replies.some((reply) => !seenStep(this.detail, reply));
  }

  async read() {
    try {
      const answer = getIfChanged(`${at("api", "inbox", this.id)}?html=true`, this.tag);
      const [{ body, tag }, person] = await Promise.all([answer, this.readPerson()]);
      if (!body) return;
      Object.assign(this, { detail: body, tag, person });
    } catch (error) {
      if (!this.gone && !this.drawn) fill(this.body, this.withoutServer(error));
      this.bar.hidden = !this.drawn;
      this.element.ariaBusy = "false";
      return;
    }
    if (this.gone) return;
    this.bar.hidden = false;
    this.element.ariaBusy = "false";
    this.draw();
    this.loaded(this.detail);
  }

  draw() {
    const { entry, parts, replies, receipts, html } = this.detail;
    const workspace = this.workspaces().find((known) => known.workspace_id === entry.workspaceId);
    if (!this.drawn) this.begin(entry);
    const pending = [this.id, ...parts.map((part) => part.id)].map((id) => [pendingOf(`reply ${id}`), keptReplyTo(id)]);
    this.part("head", [entry, workspace?.focus], () => this.head(entry));
    this.part("before", entry.threadId, () => entry.threadId && threadBefore(entry));
    this.part("comments", html.comments, () => html.comments && withoutTitle(this.text("section.comments", html.comments), entry));
    const own = entry.question?.entryId === entry.id && entry.question;
    this.part("question", [own, pending[0]], () => own && this.question(entry));
    this.part("conversation", [parts, replies, receipts, pending], () => this.conversation(parts, replies));
    this.part("receipts", receipts, () => receiptsOf(receipts));
    this.numbered.see(this.id, this.asking()[0]?.id);
    this.jump.watch();
    this.findQuestion();
  }

  /** Put the focus into a question, on its first choice or its proposal, once it is shown. */
  focusQuestion(entryId) {
    this.wanted = entryId;
    if (this.drawn) this.findQuestion();
  }

  findQuestion() {
    const question = [...this.body.querySelectorAll(".question")].find((each) => each.dataset.of === this.wanted);
    if (!question) return;
    this.wanted = null;
    question.scrollIntoView({ block: "center" });
    question.querySelector("textarea, button")?.focus({ preventScroll: true });
  }

  /** What can be shown without an answer of the server: the words that the list has. */
  withoutServer(error) {
    if (error.status === 404) return [this.head(null), missing(this.toDo.close)];
    const known = this.known() ?? null;
    return [this.head(known), known && h("p.plain", { dir: "auto" }, known.comments ?? ""), trouble(error, () => this.load())];
  }

  text(tag, html) {
    return markdown(tag, html, this.detail.entry, { quote: (words) => this.quote(words) });
  }

  /** The frame with the containers of the parts and the documents. */
  begin(entry) {
    this.drawn = true;
    const place = (name) => {
      const element = h("div.part", { "data-part": name });
      this.parts.set(name, [undefined, element]);
      return element;
    };
    const documents = this.documentsOf(entry);
    fill(
      this.body,
      place("head"),
      place("before"),
      documents,
      place("comments"),
      place("question"),
      place("conversation"),
      place("receipts"),
    );
    this.bar.querySelector("textarea").placeholder = `Reply to ${entry.from || entry.workspaceLabel}…`;
  }

  documentsOf(entry) {
    const docs = entry.docs ?? [];
    const folded = (at) => docs.length > MOST_OPEN && at >= MOST_OPEN;
    const fresh = docs.map((doc, at) =>
      documentOf(entry, doc.path, { quote: (words) => this.quote(words), visit: () => this.visit, folded: folded(at) }),
    );
    this.documents.push(...fresh);
    for (const document of fresh) document.look();
    return fresh.map(({ element }) => element);
  }

  part(name, madeOf, make) {
    const [before, element] = this.parts.get(name);
    const now = JSON.stringify(madeOf ?? null);
    if (before === now) return;
    const open = element.querySelector("details")?.open;
    const focused = element.contains(document.activeElement) ? document.activeElement.textContent : null;
    fill(element, make());
    if (open) element.querySelector("details")?.setAttribute("open", "");
    if (focused)
      [...element.querySelectorAll("button, a, summary")].find((each) => each.textContent === focused)?.focus({ preventScroll: true });
    this.parts.set(name, [now, element]);
  }

  head(entry) {
    const back = h("button.icon-button.back", { type: "button", "aria-label": "Back", onclick: this.toDo.close }, icon("back"));
    if (!entry) return h("header.head", {}, back);
    const thread = entry.threadId && h("a", { href: `/threads/${encodeURIComponent(entry.threadId)}` }, "Thread");
    const said = [
      h("strong", {}, entry.workspaceLabel),
      entry.from && entry.from !== entry.workspaceLabel && ` · ${entry.from}`,
      " · ",
      unverified(entry) && [unverified(entry), " "],
      h("time", { datetime: new Date(entry.ts).toISOString(), title: full(entry.ts) }, clock(entry.ts)),
    ];
    const titles = h("div.titles", {}, h("h1", { dir: "auto" }, entry.title), h("p.soft", {}, said, thread && [" · ", thread]));
    return h("header.head", {}, back, titles, this.buttons(entry));
  }

  /** The buttons of the head. Notices are neither put away nor pinned. */
  buttons({ kind, state, pinned }) {
    const { done, snooze, pin, unread, remove } = this.toDo;
    const button = (name, picture, act, more = {}) =>
      h("button.icon-button", { type: "button", "aria-label": name, title: name, onclick: act, ...more }, icon(picture));
    const triage = kind !== "notice" && [
      state === "inbox" && button("Done", "check", done),
      state !== "snoozed" && button("Snooze", "snooze", snooze),
      button("Pin", "pin", pin, { "aria-pressed": String(pinned) }),
    ];
    return [triage, button("Mark as unread", "unread", unread), button("Delete this entry", "trash", remove)];
  }

  // --- the session

  sessionButton() {
    const attributes = { type: "button", title: "Bring the session of this workspace to the front", onclick: () => this.openSession() };
    return h("button.session", attributes, icon("terminal"), h("span", {}, "Open session"));
  }

  async openSession() {
    const { entry } = this.detail ?? {};
    const workspace = this.workspaces().find((known) => known.workspace_id === entry?.workspaceId);
    if (!workspace) return toast("The workspace of this entry is not there any more.");
    if (!workspace.focus) return tellHowToFocus(workspace);
    try {
      await post(at("api", "workspaces", workspace.workspace_id, "focus"));
      toast("The session is open");
    } catch (error) {
      failed("The session could not be opened:", error);
    }
  }

  // --- answering

  /** The entries of this matter that ask something, the one to answer first. */
  asking() {
    const { entry, parts } = this.detail ?? {};
    return [entry, ...(parts ?? [])].filter((each) => asks(each) && !isPending(`reply ${each?.id}`));
  }

  question(entry) {
    const act = {
      answer: (choice) => this.answer(entry, choice),
      decide: (decision) => this.decide(entry, decision),
      edited: this.edited,
    };
    return questionOf(entry, act, { person: this.person, pending: isPending(`reply ${entry.id}`) && pendingOf(`reply ${entry.id}`)[0] });
  }

  /** Choose an answer by its button or its number. */
  async answer(entry, choice) {
    if (!(await mayChoose(entry.question, choice))) return;
    this.post(entry.id, { body: choice }, choice, `choice:${entry.id}`);
  }

  decide(entry, decision) {
    this.post(entry.id, { decision }, NAMES[decision.type], `choice:${entry.id}`, () => forgetProposal(entry.id));
  }

  post(id, body, words, of, arrived = () => {}) {
    const done = (answer) => {
      if (answer) arrived();
      if (this.gone) return;
      if (!answer && this.drawn) this.draw(); // it waits until the server is back
      this.load();
    };
    this.numbered.forget();
    sendLater(id, body, { words, of, done });
  }

  /** Choose by a number: an answer, or to approve or reject a proposal. */
  choose(number) {
    const [entry] = this.asking();
    if (!entry) return false;
    if (!this.numbered.mayAnswer(entry.id)) return true;
    if (entry.question.proposal) {
      const button = this.body.querySelector(`.deciding [data-number="${number}"]`);
      button?.click();
      return Boolean(button);
    }
    const choice = entry.question.choices[number - 1];
    if (!choice) return false;
    this.answer(entry, choice);
    return true;
  }

  /** Reply with a text: to the open question, or else to the entry. It comes back into the field if it is taken back. */
  send(text) {
    const [asked] = this.asking();
    const id = asked?.id ?? this.id;
    const back = () => this.bar.setText(text);
    const done = (answer) => (answer ? this.gone || this.load() : this.bar.setText(text));
    sendLater(id, { body: text, comment: true }, { words: text, of: `entry:${this.id}`, done, back, typed: true });
    return true;
  }

  /** Put a quotation into the reply bar. */
  quote(words) {
    this.bar.quote(words);
  }

  // --- the conversation

  conversation(parts, replies) {
    const items = [
      ...parts.map((part) => [part.ts, () => this.added(part)]),
      ...replies.map((reply) => [when(reply.at), () => this.said(reply)]),
      ...[this.detail.entry, ...parts].filter((each) => !asks(each)).flatMap(({ id }) => pendingOf(`reply ${id}`).map(later)),
    ];
    if (!items.length) return null;
    items.sort(([one], [other]) => one - other);
    const list = h("ol.conversation", { "aria-label": "Conversation" });
    list.append(...items.map(([, make]) => make()));
    return list;
  }

  added(part) {
    const html = this.detail.html.texts[part.id];
    return h(
      "li.said.added",
      { "data-part-id": part.id },
      h("p.who", {}, h("strong", {}, part.from), h("time.soft", { title: full(part.ts) }, clock(part.ts))),
      this.keptDocuments(part),
      part.comments && this.text("div.text", html),
      part.question && this.question(part),
    );
  }

  /** The documents of a part, which keep their element when the conversation is drawn again. */
  keptDocuments(part) {
    this.ofParts ??= new Map();
    if (!this.ofParts.has(part.id)) this.ofParts.set(part.id, this.documentsOf(part));
    return this.ofParts.get(part.id);
  }

  said(reply) {
    const seen = seenStep(this.detail, reply);
    const told = seen ? `Seen by ${seen.by} · ${clock(when(seen.at))}` : "Not seen yet";
    return h(
      "li.said.mine",
      {},
      h(
        "p.who",
        {},
        h("strong", {}, reply.from),
        reply.verified ? null : h("span.badge", { title: "It came by a door at which nobody vouched for who spoke" }, "unverified"),
        h("time.soft", { title: full(when(reply.at)) }, clock(when(reply.at))),
      ),
      this.text("div.text", this.detail.html.texts[reply.id]),
      h("p.seen", { "data-seen": String(Boolean(seen)) }, told),
    );
  }

  lookAtDocuments() {
    for (const document of this.documents) document.follow();
  }

  reply() {
    this.element.querySelector(".reply textarea")?.focus();
  }
}

/**
 * Longer comments without a first paragraph that the title repeats word for word, because it was made of it. One with links is kept, and one
 * with a colon at its end, which leads to what follows.
 */
function withoutTitle(text, { title }) {
  const first = text.firstElementChild;
  const isTitle = first?.tagName === "P" && first.textContent.trim() === title && !first.querySelector(":not(strong, em, code, del)");
  if (text.childElementCount > 1 && isTitle && !title.endsWith(":")) first.remove();
  return text;
}

/** Whether an entry or a part has an open question of its own, which shows the answer that waits to be sent. */
const asks = (each) => each?.question?.state === "open" && each.question.entryId === each.id;

/** A reply that waits to be sent, at the end of the conversation. */
const later = (text) => [Infinity, () => waiting(text)];

function waiting(text) {
  return h("li.said.mine.waiting", {}, h("p.text", { dir: "auto" }, text), h("p.seen", {}, "Goes out in a moment"));
}

function tellHowToFocus(workspace) {
  const line = `inbox workspace set ${workspace.workspace_id} --focus "tmux select-window -t ${workspace.agent}"`;
  dialog(
    "Open the session from here",
    h(
      "div.body",
      {},
      h("p", {}, `Tell the server which command brings the terminal of ${workspace.label} to the front. On the server's machine:`),
      h("div.command", {}, h("pre", { tabindex: "0" }, commandWords(line))),
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
