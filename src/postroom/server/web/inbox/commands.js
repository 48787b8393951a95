// What a person can do in the inbox: by a key, and from the palette.

/** The keys of the inbox: key → act. */
export function keysOf(inbox) {
  const numbers = Object.fromEntries(Array.from({ length: 9 }, (_, at) => [String(at + 1), () => inbox.chooseNumber(at + 1)]));
  return {
    ...numbers,
    j: () => inbox.move(1),
    k: () => inbox.move(-1),
    J: () => inbox.move(1, { select: true }),
    K: () => inbox.move(-1, { select: true }),
    ArrowDown: () => inbox.arrow(1),
    ArrowUp: () => inbox.arrow(-1),
    Enter: (event) => inbox.enter(event),
    o: () => inbox.cursor && inbox.go(inbox.cursor),
    e: () => inbox.done(),
    h: () => inbox.snooze(),
    p: () => inbox.pin(),
    x: () => inbox.select(),
    u: () => inbox.unread(),
    U: () => inbox.read(true),
    n: () => inbox.nextQuestion(),
    r: () => inbox.reply(),
    Delete: () => inbox.remove(),
    "#": () => inbox.remove(),
    "/": () => inbox.tools.search.focus(),
    Escape: () => inbox.escape(),
  };
}

/** What the palette offers: first what concerns the open entry, or by its name the one under the cursor, or the chosen ones. */
export function actionsOf(inbox) {
  const chosen = inbox.list.selected.size;
  const title = !inbox.detail && inbox.target && inbox.entries.find(inbox.target)?.title;
  const named = chosen ? `: ${chosen} chosen` : title ? `: ${title}` : "";
  const of = inbox.target
    ? [
        ["Reply", "r", () => inbox.reply(), "send"],
        ["Done", "e", () => inbox.done(), "check"],
        ["Snooze", "h", () => inbox.snooze(), "snooze"],
        ["Pin or unpin", "p", () => inbox.pin(), "pin"],
        ["Mark as unread", "u", () => inbox.unread(), "inbox"],
        ["Delete", "#", () => inbox.remove(), "trash"],
      ].map(([name, ...rest]) => [name + named, ...rest])
    : [];
  const session = inbox.detail ? [["Open session", "", () => inbox.detail.openSession(), "terminal"]] : [];
  const filters = [
    ["Show unread entries", "", () => inbox.choose({ unread: true, open: false }), "inbox"],
    ["Show snoozed entries", "", () => inbox.choose({ state: "snoozed", unread: false, open: false }), "snooze"],
    ["Show done entries", "", () => inbox.choose({ state: "done", unread: false, open: false }), "check"],
  ];
  const rest = [
    ["Next question", "n", () => inbox.nextQuestion(), "questions"],
    ["Mark all as read", "", () => inbox.readAll(), "checks"],
    ["Search entries", "/", () => inbox.tools.search.focus(), "search"],
  ];
  return [...of, ...session, ...rest, ...filters].map(([name, key, act, picture]) => ({ name, key, act, icon: picture }));
}
