"""Handlers of `workspace …`, `push`, `notify`, `ask`, `entries`, `entry …` and `queue …` (the queues that the page shows)."""

from __future__ import annotations

import os

from postroom.cli.framework.output import CONFLICT, NOTHING, OK, Outcome
from postroom.cli.inbox import inputs
from postroom.core import checks
from postroom.core.errors import Interrupted, InvalidInput, NotFound
from postroom.core.text import shell_quote, short_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.framework.parser import Arguments
    from postroom.core.records.people import Answer, EntryPage, Workspace, WorkspaceRegistration
    from postroom.store.interface import Store

DEFAULT_SERVER_URL = "http://127.0.0.1:8420"
PRINTED_FIELDS = ("answer", "state", "id")
_QUESTION_OPTIONS = (
    *("question", "question_file", "to", "choice", "deadline_seconds", "on_silence", "default", "escalate_to"),
    *("title", "dangerous", "add_to", "propose", "propose_json"),
)


def handle_workspace_add(args: Arguments) -> Outcome:
    from postroom.people.access.workspaces import add_workspace, folder_name

    store = inputs.open_store_for(args)
    label = folder_name(os.path.realpath(args.words[0])) if args.label is None else args.label
    if not label:
        raise InvalidInput("'label' is missing", field="label", hint="Say what people should call it, with --label.")
    # Only an --agent on the command line names the agent of the workspace. INBOX_AGENT names the caller.
    url = server_url(store, args.url)
    registered = add_workspace(store, args.words[0], label=label, agent=args.values["agent"])
    return _registration_outcome(registered, url, warnings=_exposure_warnings(store.location, registered.workspace.path))


def handle_workspace_token(args: Arguments) -> Outcome:
    from postroom.people.access.workspaces import rotate_token

    store = inputs.open_store_for(args)
    url = server_url(store, args.url)
    return _registration_outcome(rotate_token(store, args.words[0]), url)


def _exposure_warnings(location: str, folder: str) -> list[str]:
    """Return what to tell a person whose workspace contains the store, or the folder with the person's token."""
    from postroom.store.location import shown_location, state_folder

    exposed = {"the store": shown_location(location), "your token for scripts": os.path.realpath(state_folder(location))}
    advice = "An agent with access to it can act as you. Choose a folder below it, or keep the store elsewhere (--db)."
    return [f"This folder contains {what}. {advice}" for what, path in exposed.items() if _contains(folder, path)]


def _contains(folder: str, path: str) -> bool:
    """Return whether an absolute path is a folder or below it. A store behind a server has no path."""
    return os.path.isabs(path) and os.path.commonpath((folder, path)) == folder


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
    return known_server(store) or DEFAULT_SERVER_URL


def known_server(store: Store) -> str:
    """Return the URL of the server that runs for a store, as it noted it for this user, or "" if none did."""
    if store.is_remote and store.location.startswith("http"):
        return store.location.rstrip("/")
    from postroom.store.location import read_url_note

    return read_url_note(store.location) or ""


def _workspace_json(workspace: Workspace) -> dict[str, Any]:
    return {name: value for name, value in workspace.items() if name != "created_at"}


def handle_workspace_list(args: Arguments) -> Outcome:
    from postroom.people.access.workspaces import list_workspaces

    return Outcome(
        {"workspaces": [_workspace_json(workspace) for workspace in list_workspaces(inputs.open_store_for(args))]}, view="people workspaces"
    )


def handle_workspace_show(args: Arguments) -> Outcome:
    from postroom.people.access.workspaces import show_workspace

    store = inputs.open_store_for(args)
    workspace = show_workspace(store, args.words[0])
    return Outcome(
        {"workspace": _workspace_json(workspace), "mcp_url": f"{server_url(store, args.url)}/mcp/{workspace.workspace_id}"},
        view="people workspace",
    )


def handle_workspace_set(args: Arguments) -> Outcome:
    from postroom.people.access.workspaces import set_workspace

    if args.no_focus and args.focus is not None:
        raise InvalidInput("--focus and --no-focus exclude each other", field="focus", hint="Leave one out.")
    focus = "" if args.no_focus else args.focus
    if focus is not None and not args.no_focus and not focus.strip():
        raise InvalidInput("'focus' is empty", field="focus", hint="Give a command line, or --no-focus.")
    changed = set_workspace(inputs.open_store_for(args), args.words[0], label=args.label, focus=focus)
    return Outcome({"workspace": _workspace_json(changed)}, view="people changed")


def handle_workspace_remove(args: Arguments) -> Outcome:
    from postroom.people.access.workspaces import remove_workspace

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
    entry = push(store, workspace, docs=args.doc, comments=comments, title=args.title, entry_id=args.add_to)
    return Outcome({"entry": entry.to_json()}, view="people pushed")


def _workspace_of(store: Store, agent: str) -> str:
    from postroom.people.access.workspaces import workspace_for

    return workspace_for(store, agent=agent).workspace_id


def handle_notify(args: Arguments) -> Outcome:
    from postroom.people.entries import notify

    store, sender = inputs.open_store_for(args), inputs.require_sender(args)
    entry = notify(store, sender=sender, text=_require_text(args, "text", flag="body"))
    data: dict[str, Any] = {"entry": entry.to_json()}
    if _has_workspace(store, sender):
        data["warnings"] = [f"{sender} is a workspace's agent: `inbox push` shows documents, and one row for each matter. Use it instead."]
    return Outcome(data, view="people notified")


def _has_workspace(store: Store, agent: str) -> bool:
    from postroom.people.access.workspaces import workspace_for

    try:
        return bool(workspace_for(store, agent=agent))
    except NotFound:
        return False


def handle_ask(args: Arguments) -> Outcome:
    from postroom.cli.inbox.waiting import interruptible
    from postroom.people.questions.asking import answer_of, wait_answer

    _check_answer_options(args)
    store = inputs.open_store_for(args, owns_process=True)
    entry_id = _ask_question(args, store) if args.entry is None else args.entry
    agent = args.agent if args.values["from"] is None else args.values["from"]
    agent = agent or None
    if args.no_wait:
        answer = answer_of(store, entry_id, agent=agent)
        return Outcome({"entry": _entry_json(store, entry_id, agent), "answer": answer.to_json()}, view=_answer_view(args, "people asked"))
    try:
        with interruptible():
            answer = wait_answer(store, entry_id, agent=agent, **inputs.given_options(args, "timeout_seconds"))
    except Interrupted as stop:
        stop.facts["entry_id"] = entry_id
        stop.hint = f"Go on waiting with `inbox ask --entry {shell_quote(entry_id)}`; nothing was lost."
        raise
    data = {"entry": _entry_json(store, entry_id, agent), "answer": answer.to_json()}
    return Outcome(data, view=_answer_view(args, "people answer"), exit_code=_answer_code(args, answer))


def _check_answer_options(args: Arguments) -> None:
    """Refuse flags that contradict each other, before anything is asked."""
    if args.entry is not None:
        _refuse_question_options(args)
    if args.print is not None:
        checks.choice("print", args.print, PRINTED_FIELDS)
        if args.json:
            raise InvalidInput("print and json exclude each other", field="print", hint="Leave one of them out.")
    if args.expect is not None and args.no_wait:
        raise InvalidInput("--expect needs an answer, and --no-wait waits for none", field="expect", hint="Leave one of them out.")
    if args.expect is not None and args.choice and args.expect not in args.choice:
        raise InvalidInput(
            "the expected answer is not one of the choices", field="expect", hint=f"Choose one of: {', '.join(args.choice)}."
        )


def _answer_view(args: Arguments, view: str) -> str:
    return view if args.print is None else f"people printed {args.print}"


def _answer_code(args: Arguments, answer: Answer) -> int:
    """Return the exit code of an answer. A script that goes on after 0 has the consent of a person, or of the default."""
    if answer.state == "open":
        return NOTHING
    if args.expect is not None:
        return OK if answer.answer is not None and answer.answer.strip() == args.expect.strip() else CONFLICT
    return OK if answer.accepted else CONFLICT


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
    from postroom.people.questions.asking import ask

    options = inputs.given_options(args, "to", "deadline_seconds", "on_silence", "default", "escalate_to", "title")
    options |= {"choices": args.choice, "dangerous": args.dangerous, "entry_id": args.add_to, "proposal": _read_proposal(args)}
    return ask(store, agent=inputs.require_sender(args), question=_require_text(args, "question"), **options).id


def _read_proposal(args: Arguments) -> dict[str, Any] | None:
    """Return the proposal of a question: a text, or an action with its arguments as JSON."""
    if args.propose is not None and args.propose_json is not None:
        raise InvalidInput("propose and propose-json exclude each other", field="propose", hint="Leave one of them out.")
    if args.propose_json is None:
        return None if args.propose is None else {"text": args.propose}
    from postroom._fastpath import json_text as jsontext

    proposal: dict[str, Any] = jsontext.loads(checks.json_object("propose-json", args.propose_json))
    return proposal


def handle_entries(args: Arguments) -> Outcome:
    from postroom.cli.inbox.short_ids import expand_ids

    store = inputs.open_store_for(args)
    page = _read_entries(store, args)
    if not page.entries and args.workspace and expand_ids(args):
        page = _read_entries(store, args)
    return Outcome(page.to_json(), view="people entries")


def _read_entries(store: Store, args: Arguments) -> EntryPage:
    from postroom.people.entries import history, open_questions

    limit = inputs.given_options(args, "limit")
    if args.search is not None:
        return _search_entries(store, args, limit)
    if args.urgent:
        return open_questions(store, **limit, after=args.after)
    filters = {"before": args.before, "workspace_id": args.workspace, "unread": args.unread, "open_only": args.questions}
    return history(store, section="notices" if args.notices else "inbox", state=_wanted_state(args), pinned=args.pinned, **filters, **limit)


def _search_entries(store: Store, args: Arguments, limit: dict[str, Any]) -> EntryPage:
    from postroom.people.searching import search

    filters = {"before": args.before, "workspace_id": args.workspace or "", "unread": args.unread, "open_only": args.questions}
    filters |= {"section": "notices" if args.notices else "", "state": _wanted_state(args)}
    return search(store, args.search, **filters, **limit)


def _wanted_state(args: Arguments) -> str:
    """Return the state that a flag asks for, or "" for all."""
    if args.done and args.snoozed:
        raise InvalidInput("--done and --snoozed exclude each other", field="done", hint="Leave one out.")
    return "done" if args.done else "snoozed" if args.snoozed else ""


def handle_entry_show(args: Arguments) -> Outcome:
    from postroom.people.receipts import show_entry

    return Outcome(show_entry(inputs.open_store_for(args), args.words[0]).to_json(), view="people entry")


def handle_entry_reply(args: Arguments) -> Outcome:
    from postroom.people.replying import reply

    decision = _read_decision(args)
    body = _require_text(args, "body") if decision is None else ""
    replied = reply(
        inputs.open_store_for(args), args.words[0], person=_acting_person(args), body=body, decision=decision, comment=args.comment
    )
    return Outcome(replied.to_json(), view="people replied")


def _read_decision(args: Arguments) -> dict[str, Any] | None:
    """Return the decision about a proposal, or None. `--body` is the reason of a rejection."""
    if args.approve and args.reject:
        raise InvalidInput("approve and reject exclude each other", field="approve", hint="Leave one out.")
    if args.approve:
        return {"type": "approve"}
    return {"type": "reject", "reason": args.body or ""} if args.reject else None


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


def handle_entry_done(args: Arguments) -> Outcome:
    return _set_state(args, "inbox" if args.undo else "done")


def handle_entry_snooze(args: Arguments) -> Outcome:
    if args.undo and (args.until is not None or args.for_seconds is not None):
        raise InvalidInput("--undo takes no time", field="undo", hint="Leave one out.")
    return _set_state(args, "inbox" if args.undo else "snoozed", until=_snooze_end(args))


def _set_state(args: Arguments, state: str, until: int | None = None) -> Outcome:
    from postroom.people.triage import set_state

    entry = set_state(inputs.open_store_for(args), args.words[0], person=_acting_person(args), state=state, until=until)
    return Outcome({"entry": entry.to_json()}, view="people state")


def _snooze_end(args: Arguments) -> int | None:
    """Return when a snoozed entry comes back, in milliseconds since 1970, or None for "until something new arrives"."""
    from postroom.core import clock

    if args.until is not None and args.for_seconds is not None:
        raise InvalidInput("--until and --for-seconds exclude each other", field="until", hint="Leave one out.")
    if args.for_seconds is not None:
        return (clock.now() + int(checks.seconds("for-seconds", args.for_seconds) * clock.MICROSECONDS_PER_SECOND)) // 1000
    if args.until is None:
        return None
    from datetime import datetime

    try:
        return int(datetime.fromisoformat(args.until).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        hint = "Write it as 2026-11-30T09:00, in local time."
        raise InvalidInput(f"{short_repr(args.until)} is not a time", field="until", hint=hint) from None


def handle_entry_pin(args: Arguments) -> Outcome:
    from postroom.people.triage import pin_entry

    entry = pin_entry(inputs.open_store_for(args), args.words[0], person=_acting_person(args), pinned=not args.undo)
    return Outcome({"entry": entry.to_json()}, view="people state")


def handle_workspace_mute(args: Arguments) -> Outcome:
    from postroom.people.triage import mute_workspace

    changed = mute_workspace(inputs.open_store_for(args), args.words[0], muted=not args.undo)
    return Outcome({"workspace": _workspace_json(changed)}, view="people changed")


def handle_entry_delete(args: Arguments) -> Outcome:
    from postroom.people.entries import delete_entry

    delete_entry(inputs.open_store_for(args), args.words[0], person=_acting_person(args))
    return Outcome({"deleted": args.words[0]}, view="people deleted")


def _acting_person(args: Arguments) -> str:
    """Return the person in `--agent` or `INBOX_AGENT`, else `user`. The verb refuses the name of an agent that is no person."""
    if args.values["agent"] is not None:
        return str(args.values["agent"])
    return str(args.agent or "user")


def _require_text(args: Arguments, field: str, *, flag: str = "") -> str:
    """Return the text in `--FLAG`, or in the file that `--FLAG-file` names. Refuses both, and neither. The flag is FIELD by default."""
    flag = flag or field
    text = args.values[field]
    path = args.values[f"{field}_file"]
    if text is not None and path is not None:
        raise InvalidInput(f"{flag} and {flag}-file exclude each other", field=field, hint="Leave one of them out.")
    if path is not None:
        return inputs.read_file_text(path, field=f"{field}-file", hint="It must be text.")
    if text is None:
        raise InvalidInput(f"'{flag}' is missing", field=field, hint=f"Pass it with --{flag}, or --{flag}-file.")
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
