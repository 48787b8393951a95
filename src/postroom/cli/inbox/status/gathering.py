"""Handlers of `status` and `top`, and the function that reads what they show."""

from __future__ import annotations

from postroom.cli.framework.output import Outcome
from postroom.cli.inbox import inputs
from postroom.core import clock
from postroom.core.errors import Forbidden, NoStore
from postroom.core.states import BLOCKED, HELD_STATUSES
from postroom.core.text import shell_quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from postroom.cli.framework.parser import Arguments
    from postroom.core.records.work import Message
    from postroom.store.interface import Store

    Data = dict[str, Any]

MAX_COUNTED_ROWS = 1000
MAX_SHOWN_ROWS = 20


def handle_status(args: Arguments) -> Outcome:
    if args.watch:
        return handle_top(args)
    try:
        store = inputs.open_store_for(args)
    except NoStore as refusal:
        queue = _find_queue_here()
        if queue is None:
            raise
        shown = f"`thread info {shell_quote(queue)}` shows it"
        hint = f"A queue has no store: {shown}. `inbox init` makes a store for work, mail and people."
        raise NoStore(str(refusal), hint=hint) from None
    return Outcome(read_status(store), view="status")


def _find_queue_here() -> str | None:
    """Return the path of a queue: a folder of this one, the first by name, or this folder itself."""
    import os

    folders = sorted(name for name in os.listdir()[:MAX_COUNTED_ROWS] if os.path.isfile(os.path.join(name, "events.db")))
    return next(iter(folders), "." if os.path.isfile("events.db") else None)


def handle_top(args: Arguments) -> Outcome:
    import os

    from postroom.core.errors import InvalidInput
    from postroom.store.installation import missing_extra

    if args.json:
        raise InvalidInput("a live screen has no JSON", field="json", hint="Use `inbox status --json`.")
    if not os.isatty(0) or not os.isatty(1):
        raise InvalidInput("a live screen needs a terminal", field="watch", hint="Use `inbox status`, or `inbox watch` in a script.")
    store = inputs.open_store_for(args)
    try:
        from postroom.cli.inbox.status.live_screen import run_screen
    except ImportError as error:
        raise missing_extra(f"the live screen needs more libraries: {error}", "terminal") from None
    run_screen(store, person=args.agent or "user")
    return Outcome(None)


def read_status(store: Store) -> Data:
    """Return what waits for whom, who holds what, open questions, mailboxes, queues and the server. Every list is cut and says so.

    A part that the caller may not see over the network is None.
    """
    parts: dict[str, Callable[[Store], object]] = {
        "waiting": _read_waiting,
        "held": _read_held,
        "questions": _read_questions,
        "thread_questions": _read_thread_questions,
        "tasks": _read_tasks,
        "mailboxes": _read_mailboxes,
        "queues": _read_queues,
        "server": _read_server,
    }
    return {name: _allowed(store, read) for name, read in parts.items()}


def _allowed(store: Store, read: Callable[[Store], object]) -> object:
    try:
        return read(store)
    except Forbidden:
        return None


def _read_waiting(store: Store) -> Data:
    """Return the number of pending threads for each name, and whether that name was ever seen."""
    from postroom.work.agents import list_agents
    from postroom.work.listing import list_threads

    page = list_threads(store, statuses=("pending",), limit=MAX_COUNTED_ROWS)
    seen = {agent.name for agent in list_agents(store, limit=MAX_COUNTED_ROWS) if agent.last_seen_at or agent.is_person}
    names: dict[str, Data] = {}
    for thread in page.threads:
        row = names.setdefault(thread.assigned_to, {"agent": thread.assigned_to, "threads": 0, "oldest_at": thread.created_at})
        row["threads"] += 1
        row["oldest_at"] = min(row["oldest_at"], thread.created_at)
        row["seen"] = thread.assigned_to in seen
    agents = sorted(names.values(), key=lambda row: (-row["threads"], row["agent"]))
    return {"agents": agents[:MAX_SHOWN_ROWS], "threads": len(page.threads), "more": page.more or len(agents) > MAX_SHOWN_ROWS}


def _read_held(store: Store) -> Data:
    """Return the threads that somebody holds, the longest held first."""
    from postroom.work.listing import list_threads

    page = list_threads(store, statuses=HELD_STATUSES, limit=MAX_COUNTED_ROWS)
    threads = {thread.thread_id: thread for thread in page.threads}
    rows = [
        {
            "thread_id": hold.thread_id,
            "subject": threads[hold.thread_id].subject,
            "status": threads[hold.thread_id].status,
            "held_by": hold.held_by,
            "claimed_at": hold.claimed_at,
            "lease_expires_at": hold.lease_expires_at,
            "lapsed": hold.lapsed,
        }
        for hold in sorted(page.holds, key=lambda hold: hold.claimed_at or "")
    ]
    return {"threads": rows[:MAX_SHOWN_ROWS], "total": len(rows), "more": page.more or len(rows) > MAX_SHOWN_ROWS}


def _read_questions(store: Store) -> Data:
    """Return the questions that wait for a person, the one with the earliest deadline first."""
    from postroom.people.entries import open_questions
    from postroom.people.receipts import show_entry

    page = open_questions(store, limit=MAX_SHOWN_ROWS)
    rows = []
    for entry in page.entries:
        shown = entry.to_json()
        question = shown["question"]
        asked_at = clock.format_stamp(entry.ts * 1000)
        added = () if question["entryId"] == entry.id else show_entry(store, entry.id).parts
        asked = next((part for part in added if part.id == question["entryId"]), entry)
        row = {"entry_id": question["entryId"], "from": entry.agent, "text": asked.comments or "", "asked_at": asked_at}
        terms = {name: question[name] for name in ("to", "choices", "dangerous", "proposal", "deadline")}
        rows.append({**row, **terms, "on_silence": question["onSilence"]})
    return {"entries": rows, "more": page.has_more}


def _read_thread_questions(store: Store) -> Data:
    """Return the open questions of blocked threads to agents. Those to people are entries."""
    from postroom.work.agents import list_agents
    from postroom.work.listing import list_threads
    from postroom.work.threads import show

    page = list_threads(store, statuses=(BLOCKED,), limit=MAX_SHOWN_ROWS)
    people = {agent.name for agent in list_agents(store, limit=MAX_COUNTED_ROWS) if agent.is_person}
    rows = []
    for thread in page.threads:
        said = show(store, thread.thread_id).messages
        asked = [message for message in said if message.is_open and message.kind == "question" and message.to_agent not in people]
        rows += [_describe_question(question, asked) for question in asked]
    return {"questions": rows[:MAX_SHOWN_ROWS], "more": page.more or len(rows) > MAX_SHOWN_ROWS}


def _describe_question(question: Message, asked: list[Message]) -> Data:
    words = ["inbox", "reply", "--from", question.to_agent, "--thread", question.thread_id]
    if sum(other.to_agent == question.to_agent for other in asked) > 1:
        words += ["--question", question.message_id]
    return {
        "thread_id": question.thread_id,
        "question_id": question.message_id,
        "from": question.from_agent,
        "to": question.to_agent,
        "text": question.summary or question.body,
        "asked_at": question.created_at,
        "answer_with": f"{' '.join(map(shell_quote, words))} --summary TEXT",
    }


def _read_tasks(store: Store) -> Data:
    from postroom.tasks.listing import list_tasks

    page = list_tasks(store, status="pending", limit=MAX_COUNTED_ROWS)
    return {"pending": len(page.tasks), "more": page.next_before_event is not None}


def _read_mailboxes(store: Store) -> Data:
    """Return the mailboxes in which something waits or is dead."""
    from postroom.mail.reading import sessions

    page = sessions(store, limit=MAX_COUNTED_ROWS)
    busy = [counts for counts in page.sessions if counts.pending or counts.in_flight or counts.nacked or counts.dead_letter]
    busy.sort(key=lambda counts: (-counts.dead_letter, counts.session))
    rows = [
        {"session": counts.session, "waiting": counts.pending + counts.nacked, "in_flight": counts.in_flight, "dead": counts.dead_letter}
        for counts in busy[:MAX_SHOWN_ROWS]
    ]
    return {"sessions": rows, "more": page.more or len(busy) > MAX_SHOWN_ROWS}


def _read_queues(store: Store) -> list[Data] | None:
    """Return the consumers of watched queues that lag or have trouble. The queues of a server are on its machine."""
    from postroom.people.watched_queues import list_queues, report

    if store.is_remote:
        return None
    rows: list[Data] = []
    for queue in list_queues(store)[:MAX_SHOWN_ROWS]:
        reported = report(queue)
        if reported.error is not None:
            rows.append({"queue": queue.path, "consumer": None, "lag": 0, "trouble": reported.error})
        late = [consumer for consumer in reported.consumers if consumer.lag or consumer.trouble]
        rows += [{"queue": queue.path, "consumer": one.id, "lag": one.lag, "trouble": one.trouble} for one in late]
    return rows


def _read_server(store: Store) -> Data:
    from postroom.cli.inbox.people.commands import known_server
    from postroom.store.remote.health import find_trouble

    url = known_server(store)
    if store.is_remote:
        return {"url": url or store.location, "answers": True, "trouble": None}
    trouble = find_trouble(url) if url else ""
    return {"url": url or None, "answers": bool(url) and not trouble, "trouble": trouble or None}
