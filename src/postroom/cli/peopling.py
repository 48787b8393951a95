"""The faces of people: workspaces, what they are shown and asked, and what they answer."""

from __future__ import annotations

import os

from postroom.cli import inputs
from postroom.cli.envelope import NOTHING, Outcome
from postroom.core import checks
from postroom.core.errors import Interrupted, InvalidInput
from postroom.core.words import quoted, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.parsing import Arguments
    from postroom.core.entries import Registered, Workspace
    from postroom.store.port import Store

USUAL = "http://127.0.0.1:8420"
_ASKED = ("question", "question_file", "to", "choice", "deadline_seconds", "on_silence", "default", "escalate_to")


def workspace_add(args: Arguments) -> Outcome:
    from postroom.people.workspaces import add_workspace

    store = inputs.store(args)
    if not args.label:
        raise InvalidInput("'label' is missing", field="label", hint="Say what people should call it, with --label.")
    # INBOX_AGENT says who we are, not whose workspace it is: only an --agent on this line names its agent.
    url = server_url(store, args.url)
    return _registered(add_workspace(store, args.words[0], label=args.label, agent=args.values["agent"]), url)


def workspace_token(args: Arguments) -> Outcome:
    from postroom.people.workspaces import rotate_token

    store = inputs.store(args)
    url = server_url(store, args.url)
    return _registered(rotate_token(store, args.words[0]), url)


def _registered(registered: Registered, server: str) -> Outcome:
    url = f"{server}/mcp/{registered.workspace.workspace_id}"
    header = {"Authorization": "Bearer ${INBOX_TOKEN}"}
    connection = {"mcpServers": {"inbox": {"type": "http", "url": url, "headers": header}}}
    data = {"workspace": _plain(registered.workspace), "token": registered.token, "mcp_url": url, "mcp_json": connection}
    return Outcome(data, human="people registered")


def server_url(store: Store, url: str | None) -> str:
    """The server as named, the one that runs, or where one usually is."""
    if url is not None:
        scheme, _, rest = url.partition("://")
        if scheme not in ("http", "https") or not rest.strip("/") or not url.isprintable() or " " in url:
            raise InvalidInput(f"{shown(url)} is not the address of a server", field="url", hint=f"Write it as {USUAL}.")
        return url.rstrip("/")
    if store.elsewhere and store.place.startswith("http"):
        return store.place.rstrip("/")
    try:
        with open(os.path.join(store.data or "", "server"), encoding="ascii") as note:
            return note.read().strip() or USUAL
    except (OSError, ValueError):
        return USUAL


def _plain(workspace: Workspace) -> dict[str, Any]:
    return {name: value for name, value in workspace.items() if name != "created_at"}


def workspace_list(args: Arguments) -> Outcome:
    from postroom.people.workspaces import list_workspaces

    return Outcome({"workspaces": [_plain(found) for found in list_workspaces(inputs.store(args))]}, human="people workspaces")


def workspace_show(args: Arguments) -> Outcome:
    from postroom.people.workspaces import show_workspace

    store = inputs.store(args)
    found = show_workspace(store, args.words[0])
    return Outcome(
        {"workspace": _plain(found), "mcp_url": f"{server_url(store, args.url)}/mcp/{found.workspace_id}"}, human="people workspace"
    )


def workspace_set(args: Arguments) -> Outcome:
    from postroom.people.workspaces import set_workspace

    if args.no_focus and args.focus is not None:
        raise InvalidInput("--focus and --no-focus exclude each other", field="focus", hint="Leave one out.")
    focus = "" if args.no_focus else args.focus
    if focus is not None and not args.no_focus and not focus.strip():
        raise InvalidInput("'focus' is empty", field="focus", hint="Give a command line, or --no-focus.")
    changed = set_workspace(inputs.store(args), args.words[0], label=args.label, focus=focus)
    return Outcome({"workspace": _plain(changed)}, human="people changed")


def workspace_remove(args: Arguments) -> Outcome:
    from postroom.people.workspaces import remove_workspace

    return Outcome({"workspace": _plain(remove_workspace(inputs.store(args), args.words[0]))}, human="people removed")


def push(args: Arguments) -> Outcome:
    from postroom.people.entries import push as verb

    comments = _text(args, "comments") if args.comments is not None or args.comments_file is not None else None
    store = inputs.store(args)
    workspace = args.workspace
    if workspace is None or args.values["agent"] is not None:
        workspace = _workspace_of(store, inputs.agent(args))
    if args.workspace not in (None, workspace):
        raise InvalidInput("that is another agent's workspace", field="workspace", hint="Leave --agent or --workspace out.")
    entry = verb(store, workspace, docs=args.doc, comments=comments)
    return Outcome({"entry": entry.plain()}, human="people pushed")


def _workspace_of(store: Store, agent: str) -> str:
    from postroom.people.workspaces import workspace_for

    return workspace_for(store, agent=agent).workspace_id


def notify(args: Arguments) -> Outcome:
    from postroom.people.entries import notify as verb

    entry = verb(inputs.store(args), sender=inputs.sender(args), text=_text(args, "text"))
    return Outcome({"entry": entry.plain()}, human="people notified")


def ask(args: Arguments) -> Outcome:
    from postroom.cli.waiting import interruptible
    from postroom.people.asking import answer_of, wait_answer

    alone = [key for key in _ASKED if args.values[key]] if args.entry is not None else []
    if alone:
        name = alone[0].replace("_", "-")
        raise InvalidInput(f"{name} and entry exclude each other", field="entry", hint="--entry only waits: leave one of them out.")
    store = inputs.store(args, solitary=True)
    entry_id = _asked(args, store) if args.entry is None else args.entry
    who = args.values["from"] if args.values["from"] is not None else args.agent
    if args.no_wait:
        answer = answer_of(store, entry_id, agent=who or None)
        return Outcome({"entry": entry_of(store, entry_id, who or None), "answer": answer.plain()}, human="people asked")
    try:
        with interruptible():
            answer = wait_answer(store, entry_id, agent=who or None, **inputs.given(args, "timeout_seconds"))
    except Interrupted as stop:
        stop.facts["entry_id"] = entry_id
        stop.hint = f"Go on waiting with `inbox ask --entry {quoted(entry_id)}`; nothing was lost."
        raise
    data = {"entry": entry_of(store, entry_id, who or None), "answer": answer.plain()}
    return Outcome(data, human="people answer", exit_code=NOTHING if answer.state == "open" else 0)


def entry_of(store: Store, entry_id: str, agent: str | None = None) -> dict[str, Any]:
    from postroom.people.entries import find_entry

    return find_entry(store, entry_id, agent=agent).plain()


def _asked(args: Arguments, store: Store) -> str:
    from postroom.people.asking import ask as verb

    said = inputs.given(args, "to", "deadline_seconds", "on_silence", "default", "escalate_to")
    return verb(store, agent=inputs.sender(args), question=_text(args, "question"), choices=args.choice, **said).id


def entries(args: Arguments) -> Outcome:
    from postroom.people.entries import history, search

    store, limit = inputs.store(args), inputs.given(args, "limit")
    if args.search is not None:
        if args.before is not None or args.workspace is not None or args.unread or args.questions or args.notices:
            raise InvalidInput("search looks everywhere, and cannot be combined", field="search", hint="Leave the other filters out.")
        return Outcome(search(store, _words(args.search), **limit).plain(), human="people entries")
    chosen = {"before": args.before, "workspace_id": args.workspace, "unread": args.unread, "open_only": args.questions}
    page = history(store, section="notices" if args.notices else "inbox", **chosen, **limit)
    return Outcome(page.plain(), human="people entries")


def _words(given: str) -> str:
    from postroom.people.words import words

    if not words(checks.text("search", given)):
        raise InvalidInput("there is no word to look for", field="search", hint="Write a word or the beginning of one.")
    return given


def entry_show(args: Arguments) -> Outcome:
    from postroom.people.receipts import show_entry

    return Outcome(show_entry(inputs.store(args), args.words[0]).plain(), human="people entry")


def entry_reply(args: Arguments) -> Outcome:
    from postroom.people.replying import reply

    replied = reply(inputs.store(args), args.words[0], person=_person(args), body=_text(args, "body"))
    return Outcome(replied.plain(), human="people replied")


def entry_read(args: Arguments) -> Outcome:
    from postroom.people.entries import mark_read

    return Outcome({"entry": mark_read(inputs.store(args), args.words[0], person=_person(args)).plain()}, human="people read")


def entry_unread(args: Arguments) -> Outcome:
    from postroom.people.entries import mark_unread

    return Outcome({"entry": mark_unread(inputs.store(args), args.words[0], person=_person(args)).plain()}, human="people unread")


def entry_delete(args: Arguments) -> Outcome:
    from postroom.people.entries import delete_entry

    delete_entry(inputs.store(args), args.words[0], person=_person(args))
    return Outcome({"deleted": args.words[0]}, human="people deleted")


def _person(args: Arguments) -> str:
    """Who acts: named on this line, or by INBOX_AGENT, else the user. Of an agent's name the verb wants nothing."""
    named = args.values["agent"]
    return str(args.agent or "user") if named is None else str(named)


def _text(args: Arguments, field: str) -> str:
    """A text given by a flag, or by the file that another names."""
    given, path = args.values[field], args.values[f"{field}_file"]
    if given is not None and path is not None:
        raise InvalidInput(f"{field} and {field}-file exclude each other", field=field, hint="Leave one of them out.")
    if path is not None:
        return inputs.file_text(path, field=f"{field}-file", hint="It must be text.")
    if given is None:
        raise InvalidInput(f"'{field}' is missing", field=field, hint=f"Pass it with --{field}, or --{field}-file.")
    return str(given)
