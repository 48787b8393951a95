// The tools above the list: the search, the filters, the bulk actions, and saved searches. They live in the address.

import { put, remove } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { choose as keep, settings } from "../lib/settings.js";
import { icon } from "../parts/icons.js";
import { failed, toast } from "../parts/toast.js";

const PAUSE = 150; // milliseconds after the last letter of a search
const STATES = [
  ["inbox", "Inbox"],
  ["snoozed", "Snoozed"],
  ["done", "Done"],
  ["all", "Everything"],
];

/** The filter that an address holds. */
export function filterOf(query) {
  return {
    unread: query.get("show") === "unread",
    open: query.get("show") === "questions",
    state: STATES.some(([state]) => state === query.get("state")) ? query.get("state") : "inbox",
    workspace: query.get("workspace") ?? "",
    words: query.get("q") ?? "",
  };
}

export class Tools {
  constructor(inbox) {
    this.inbox = inbox;
    const { filter } = inbox.entries;
    const button = (name, wanted) => h("button", { type: "button", "aria-pressed": "false", onclick: () => inbox.choose(wanted) }, name);
    this.filters = [
      button("All", { unread: false, open: false }),
      button("Unread", { unread: true, open: false }),
      button("Questions", { unread: false, open: true }),
    ];
    if (inbox.room === "notices") this.filters.pop();
    this.search = h("input", { type: "search", "aria-label": "Search entries", placeholder: "Search", oninput: () => this.searching() });
    this.search.addEventListener("keydown", (event) => ["Enter", "ArrowDown"].includes(event.key) && this.enterList(event));
    this.search.value = filter.words;
    this.workspace = this.select("Workspace", [["", "All workspaces"]], (value) => inbox.choose({ workspace: value }));
    this.state = this.select("State", STATES, (value) => inbox.choose({ state: value, open: false, unread: false }));
    this.group = this.select(
      "Group by",
      [
        ["date", "By date"],
        ["workspace", "By workspace"],
      ],
      (value) => this.regroup(value),
    );
    this.group.value = settings().group;
    this.saved = h("div.saved");
    this.bulk = h("div.bulk", { role: "group", "aria-label": "Chosen entries", hidden: true });
    this.element = h("div.tools", {}, h("label.search", {}, icon("search"), this.search), this.row(), this.saved, this.bulk);
    this.drawSaved();
  }

  row() {
    if (this.inbox.room === "questions") return null;
    const all = h("button.icon-button", { type: "button", "aria-label": "Mark all as read", title: "Mark all as read" }, icon("checks"));
    all.addEventListener("click", () => this.inbox.readAll());
    const mute = h(
      "button.icon-button",
      { type: "button", "aria-label": "Mute", title: "Mute this workspace", hidden: true },
      icon("mute"),
    );
    mute.addEventListener("click", () => this.mute());
    this.muteButton = mute;
    return h(
      "div.narrowing",
      {},
      h("div.filters", { role: "group", "aria-label": "Show" }, this.filters, h("span.apart"), mute, all),
      this.inbox.room === "inbox" && h("div.selects", {}, this.state, this.workspace, this.group),
    );
  }

  select(name, options, chosen) {
    const element = h(
      "select",
      { "aria-label": name },
      options.map(([value, text]) => h("option", { value }, text)),
    );
    element.addEventListener("change", () => {
      chosen(element.value);
      element.blur(); // the next key is a shortcut, not the first letter of an option
    });
    return element;
  }

  setWorkspaces(workspaces) {
    this.workspaces = workspaces;
    const { workspace } = this.inbox.entries.filter;
    const options = workspaces.map(({ workspace_id: id, label, muted_at: muted }) =>
      h("option", { value: id }, muted ? `${label} (muted)` : label),
    );
    fill(this.workspace, h("option", { value: "" }, "All workspaces"), options);
    this.workspace.value = workspace;
    this.draw(this.inbox.entries.filter, 0);
  }

  draw(filter, selected) {
    const states = [!filter.unread && !filter.open, filter.unread, filter.open];
    for (const [at, button] of this.filters.entries()) button.setAttribute("aria-pressed", String(states[at]));
    this.state.value = filter.state;
    this.workspace.value = filter.workspace;
    if (this.muteButton) {
      const muted = this.workspaces?.find((known) => known.workspace_id === filter.workspace)?.muted_at;
      this.muteButton.hidden = !filter.workspace;
      this.muteButton.ariaLabel = this.muteButton.title = muted ? "Unmute this workspace" : "Mute this workspace";
    }
    this.drawBulk(selected);
    this.drawSaved();
  }

  drawBulk(selected) {
    this.bulk.hidden = !selected;
    if (!selected) return;
    const act = (name, done) => h("button", { type: "button", onclick: done }, name);
    const { inbox } = this;
    fill(
      this.bulk,
      h("strong", {}, `${selected} chosen`),
      inbox.room !== "notices" && act("Done", () => inbox.done()),
      inbox.room !== "notices" && act("Snooze", () => inbox.snooze()),
      act("Read", () => inbox.read(true)),
      act("Unread", () => inbox.read(false)),
      act("Delete", () => inbox.remove()),
    );
  }

  /** The filter as it stands in the address. */
  query() {
    const { unread, open, workspace, words, state } = this.inbox.entries.filter;
    const query = new URLSearchParams();
    if (unread || open) query.set("show", unread ? "unread" : "questions");
    if (state !== "inbox") query.set("state", state);
    if (workspace) query.set("workspace", workspace);
    if (words) query.set("q", words);
    return query;
  }

  searching() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.inbox.choose({ words: this.search.value.trim() }), PAUSE);
  }

  /** From the search to the first entry that it found. */
  async enterList(event) {
    event.preventDefault();
    clearTimeout(this.timer);
    const words = this.search.value.trim();
    if (words !== this.inbox.entries.filter.words) await this.inbox.choose({ words });
    this.search.blur();
    this.inbox.cursor = null;
    this.inbox.move(1);
  }

  clearSearch() {
    this.search.value = "";
    this.inbox.choose({ words: "" });
  }

  clear() {
    this.search.value = this.workspace.value = "";
  }

  regroup(value) {
    keep({ group: value });
    this.inbox.list.restart();
    this.inbox.draw();
    if (value === "workspace") this.inbox.entries.loadForGroups();
  }

  async mute() {
    const { workspace } = this.inbox.entries.filter;
    const known = this.workspaces.find((each) => each.workspace_id === workspace);
    try {
      await (known.muted_at ? remove : put)(`/api/workspaces/${encodeURIComponent(workspace)}/mute`);
      toast(known.muted_at ? `${known.label} is heard again` : `What ${known.label} pushes arrives as done`);
      await this.inbox.readWorkspaces();
    } catch (error) {
      failed("That did not work.", error);
    }
  }

  // --- saved searches

  drawSaved() {
    const searches = settings().searches ?? [];
    const { words } = this.inbox.entries.filter;
    const chip = (saved) =>
      h(
        "span.chip",
        {},
        h("button.link", { type: "button", onclick: () => ((this.search.value = saved), this.inbox.choose({ words: saved })) }, saved),
        h(
          "button.icon-button",
          { type: "button", "aria-label": `Forget ${saved}`, onclick: () => this.keepSearches(searches.filter((each) => each !== saved)) },
          icon("close"),
        ),
      );
    const save =
      words &&
      !searches.includes(words) &&
      h("button.link", { type: "button", onclick: () => this.keepSearches([...searches, words]) }, "Save this search");
    fill(this.saved, (words || document.activeElement === this.search) && searches.map(chip), save);
  }

  keepSearches(searches) {
    keep({ searches });
    this.drawSaved();
  }

  leave() {
    clearTimeout(this.timer);
  }
}
