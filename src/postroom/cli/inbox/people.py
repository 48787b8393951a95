"""Handlers of `workspace …`, `push`, `notify`, `ask`, `entries`, `entry …` and `queue …` (the queues that the page shows)."""

from __future__ import annotations

import os

from postroom.cli.framework.output import NOTHING, Outcome
from postroom.cli.inbox import inputs
from postroom.core import checks
from postroom.core.errors import Interrupted, InvalidInput
from postroom.core.text import shell_quote, short_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.framework.parser import Arguments
    from postroom.core.records.people import Workspace, WorkspaceRegistration
    from postroom.store.interface import Store

DEFAULT_SERVER_URL = "http://127.0.0.1:8420"
_QUESTION_OPTIONS = ("question", "question_file", "to", "choice", "deadline_seconds", "on_silence", "default", "escalate_to")


def handle_workspace_add(args: Arguments) -> Outcome:
    from postroom.people.workspaces import add_workspace

    store = inputs.open_store_for(args)
    if not args.label:
        raise InvalidInput("'label' is missing", field="label", hint="Say what people should call it, with --label.")
    # Only an --agent on the command line names the agent of the workspace. INBOX_AGENT names the caller.
    url = server_url(store, args.url)
    registered = add_workspace(store, args.words[0], label=args.label, agent=args.values["agent"])
    return _registration_outcome(registered, url, warnings=_exposure_warnings(store.location, registered.workspace.path))


def handle_workspace_token(args: Arguments) -> Outcome:
    from postroom.people.workspaces import rotate_token

    store = inputs.open_store_for(args)
    url = server_url(store, args.url)
    return _registration_outcome(rotate_token(store, args.words[0]), url)


def _exposure_warnings(location: str, folder: str) -> list[str]:
    """Return what to tell a person whose workspace contains the store, or the folder with the person's token."""
    from postroom.store.location import shown_location, state_folder

    exposed = {"the store": shown_location(location), "your token for scripts": os.path.realpath(state_folder(location))}
    advice = "An agent with access to it can act as you. Choose a folder below it, or keep the store elsewhere (--db)."
    return [f"This folder contains {what}. {advice}" for what, path in exposed.items() if path.startswith(folder + os.sep)]


def _registration_outcome(registered: WorkspaceRegistration, server: str, warnings: list[str] | None = None) -> Outcome:
    url = f"{server}/mcp/{registered.workspace.workspace_id}"
    header = {"Authorization": "Bearer ${INBOX_TOKEN}"}
    connection = {"mcpServers": {"inbox": {"type": "http", "url": url, "headers": header}}}
    data = {"workspace": _workspace_json(registered.workspace), "token": registered.token, "mcp_url": url, "mcp_json": connection}
    return Outcome({**data, "warnings": warnings} if warnings else data, view="people registered")


def server_url(store: Store, url: str | None) -> str:
    """Return the URL of the server without a final slash: `url`, else the running server's, else the default."""
    if url is not None:
        scheme, _, rest = url.partition("://")
        if scheme not in ("http", "https") or not rest.strip("/") or not url.isprintable() or " " in url:
            raise InvalidInput(f"{short_repr(url)} is not the address of a server", field="url", hint=f"Write it as {DEFAULT_SERVER_URL}.")
        return url.rstrip("/")
    if store.is_remote and store.location.startswith("http"):
        return store.location.rstrip("/")
    from postroom.store.location import URL_NOTE, state_folder

    try:
        with open(os.path.join(state_folder(store.location), URL_NOTE), encoding="ascii") as note:
            return note.read().strip() or DEFAULT_SERVER_URL
    except (OSError, ValueError):
        return DEFAULT_SERVER_URL


def _workspace_json(workspace: Workspace) -> dict[str, Any]:
    return {name: value for name, value in workspace.items() if name != "created_at"}


def handle_workspace_list(args: Arguments) -> Outcome:
    from postroom.people.workspaces import list_workspaces

    return Outcome(
        {"workspaces": [_workspace_json(workspace) for workspace in list_workspaces(inputs.open_store_for(args))]}, view="people workspaces"
    )


def handle_workspace_show(args: Arguments) -> Outcome:
    from postroom.people.workspaces import show_workspace

    store = inputs.open_store_for(args)
    workspace = show_workspace(store, args.words[0])
    return Outcome(
        {"workspace": _workspace_json(workspace), "mcp_url": f"{server_url(store, args.url)}/mcp/{workspace.workspace_id}"},
        view="people workspace",
    )


def handle_workspace_set(args: Arguments) -> Outcome:
    from postroom.people.workspaces import set_workspace

    if args.no_focus and args.focus is not None:
        raise InvalidInput("--focus and --no-focus exclude each other", field="focus", hint="Leave one out.")
    focus = "" if args.no_focus else args.focus
    if focus is not None and not args.no_focus and not focus.strip():
        raise InvalidInput("'focus' is empty", field="focus", hint="Give a command line, or --no-focus.")
    changed = set_workspace(inputs.open_store_for(args), args.words[0], label=args.label, focus=focus)
    return Outcome({"workspace": _workspace_json(changed)}, view="people changed")


def handle_workspace_remove(args: Arguments) -> Outcome:
    from postroom.people.workspaces import remove_workspace

    return Outcome({"workspace": _workspace_json(remove_workspace(inputs.open_store_for(args), args.words[0]))}, view="people removed")


def handle_push(args: Arguments) -> Outcome:
    from postroom.people.entries import push

    comments = _require_text(args, "comments") if args.comments is not None or args.comments_file is not None else None
    store = inputs.open_store_for(args)
    workspace = args.workspace
    if workspace is None or args.values["agent"] is not None:
        workspace = _workspace_of(store, inputs.require_agent(args))
    if args.workspace not in (None, workspace):
        raise InvalidInput("that is another agent's workspace", field="workspace", hint="Leave --agent or --workspace out.")
    entry = push(store, workspace, docs=args.doc, comments=comments)
    return Outcome({"entry": entry.to_json()}, view="people pushed")


def _workspace_of(store: Store, agent: str) -> str:
    from postroom.people.workspaces import workspace_for

    return workspace_for(store, agent=agent).workspace_id


def handle_notify(args: Arguments) -> Outcome:
    from postroom.people.entries import notify

    entry = notify(inputs.open_store_for(args), sender=inputs.require_sender(args), text=_require_text(args, "text"))
    return Outcome({"entry": entry.to_json()}, view="people notified")


def handle_ask(args: Arguments) -> Outcome:
    from postroom.cli.inbox.waiting import interruptible
    from postroom.people.asking import answer_of, wait_answer

    if args.entry is not None:
        _refuse_question_options(args)
    store = inputs.open_store_for(args, owns_process=True)
    entry_id = _ask_question(args, store) if args.entry is None else args.entry
    agent = args.agent if args.values["from"] is None else args.values["from"]
    agent = agent or None
    if args.no_wait:
        answer = answer_of(store, entry_id, agent=agent)
        return Outcome({"entry": _entry_json(store, entry_id, agent), "answer": answer.to_json()}, view="people asked")
    try:
        with interruptible():
            answer = wait_answer(store, entry_id, agent=agent, **inputs.given_options(args, "timeout_seconds"))
    except Interrupted as stop:
        stop.facts["entry_id"] = entry_id
        stop.hint = f"Go on waiting with `inbox ask --entry {shell_quote(entry_id)}`; nothing was lost."
        raise
    data = {"entry": _entry_json(store, entry_id, agent), "answer": answer.to_json()}
    return Outcome(data, view="people answer", exit_code=NOTHING if answer.state == "open" else 0)


def _refuse_question_options(args: Arguments) -> None:
    """Refuse flags of a new question beside `--entry`, which only waits."""
    for key in _QUESTION_OPTIONS:
        if args.values[key]:
            name = key.replace("_", "-")
            raise InvalidInput(f"{name} and entry exclude each other", field="entry", hint="--entry only waits: leave one of them out.")


def _entry_json(store: Store, entry_id: str, agent: str | None = None) -> dict[str, Any]:
    from postroom.people.entries import find_entry

    return find_entry(store, entry_id, agent=agent).to_json()


def _ask_question(args: Arguments, store: Store) -> str:
    """Ask a new question and return the id of its entry."""
    from postroom.people.asking import ask

    options = inputs.given_options(args, "to", "deadline_seconds", "on_silence", "default", "escalate_to")
    return ask(store, agent=inputs.require_sender(args), question=_require_text(args, "question"), choices=args.choice, **options).id


def handle_entries(args: Arguments) -> Outcome:
    from postroom.people.entries import history, search

    store = inputs.open_store_for(args)
    limit = inputs.given_options(args, "limit")
    if args.search is not None:
        if args.before is not None or args.workspace is not None or args.unread or args.questions or args.notices:
            raise InvalidInput("search cannot be combined with other filters", field="search", hint="Leave the other filters out.")
        return Outcome(search(store, _check_search_words(args.search), **limit).to_json(), view="people entries")
    filters = {"before": args.before, "workspace_id": args.workspace, "unread": args.unread, "open_only": args.questions}
    page = history(store, section="notices" if args.notices else "inbox", **filters, **limit)
    return Outcome(page.to_json(), view="people entries")


def _check_search_words(words: str) -> str:
    """Return the words to search for. Refuses a text without any word."""
    from postroom.people.search_terms import search_terms

    if not search_terms(checks.text("search", words)):
        raise InvalidInput("there is no word to look for", field="search", hint="Write a word or the beginning of one.")
    return words


def handle_entry_show(args: Arguments) -> Outcome:
    from postroom.people.receipts import show_entry

    return Outcome(show_entry(inputs.open_store_for(args), args.words[0]).to_json(), view="people entry")


def handle_entry_reply(args: Arguments) -> Outcome:
    from postroom.people.replying import reply

    replied = reply(inputs.open_store_for(args), args.words[0], person=_acting_person(args), body=_require_text(args, "body"))
    return Outcome(replied.to_json(), view="people replied")


def handle_entry_read(args: Arguments) -> Outcome:
    from postroom.people.entries import mark_read

    return Outcome(
        {"entry": mark_read(inputs.open_store_for(args), args.words[0], person=_acting_person(args)).to_json()}, view="people read"
    )


def handle_entry_unread(args: Arguments) -> Outcome:
    from postroom.people.entries import mark_unread

    return Outcome(
        {"entry": mark_unread(inputs.open_store_for(args), args.words[0], person=_acting_person(args)).to_json()}, view="people unread"
    )


def handle_entry_delete(args: Arguments) -> Outcome:
    from postroom.people.entries import delete_entry

    delete_entry(inputs.open_store_for(args), args.words[0], person=_acting_person(args))
    return Outcome({"deleted": args.words[0]}, view="people deleted")


def _acting_person(args: Arguments) -> str:
    """Return the person in `--agent` or `INBOX_AGENT`, else `user`. The verb refuses the name of an agent that is no person."""
    if args.values["agent"] is not None:
        return str(args.values["agent"])
    return str(args.agent or "user")


def _require_text(args: Arguments, field: str) -> str:
    """Return the text in `--FIELD`, or in the file that `--FIELD-file` names. Refuses both, and neither."""
    text = args.values[field]
    path = args.values[f"{field}_file"]
    if text is not None and path is not None:
        raise InvalidInput(f"{field} and {field}-file exclude each other", field=field, hint="Leave one of them out.")
    if path is not None:
        return inputs.read_file_text(path, field=f"{field}-file", hint="It must be text.")
    if text is None:
        raise InvalidInput(f"'{field}' is missing", field=field, hint=f"Pass it with --{field}, or --{field}-file.")
    return str(text)


def handle_queue_add(args: Arguments) -> Outcome:
    from postroom.people.watched_queues import add_queue

    return Outcome({"queue": add_queue(inputs.open_store_for(args), args.words[0], label=args.label).to_json()}, view="people queue added")


def handle_queue_list(args: Arguments) -> Outcome:
    from postroom.people.watched_queues import list_queues

    return Outcome({"queues": [queue.to_json() for queue in list_queues(inputs.open_store_for(args))]}, view="people queues")


def handle_queue_remove(args: Arguments) -> Outcome:
    from postroom.people.watched_queues import remove_queue

    return Outcome({"queue": remove_queue(inputs.open_store_for(args), args.words[0]).to_json()}, view="people queue removed")
