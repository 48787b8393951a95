"""Complete ids that a person shortened: the beginning of an id is enough, or the end of one that we made, if it is the only one.

A workspace is also found by its label, its agent or its folder.
"""

from __future__ import annotations

import os
from itertools import islice

from postroom.core.errors import Forbidden, InvalidInput, NotFound
from postroom.core.ids import is_generated
from postroom.core.text import short_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from postroom.cli.framework.parser import Arguments
    from postroom.core.records.people import EntryPage
    from postroom.store.interface import Store

MAX_SEARCHED_ROWS = 20_000
PAGE_ROWS = 500
UUID_CHARACTERS = 36
MAX_SHOWN_IDS = 5
MIN_ENTRY_CHARACTERS = 4
MIN_END_CHARACTERS = 4
NANOSECOND_DIGITS = 19
_WORKSPACE_IDS = ("workspace ID", "--workspace ID")
_UUID_CHARACTER_SET = frozenset("0123456789abcdef-")


def expand_ids(args: Arguments) -> bool:
    """Replace shortened ids in the arguments by whole ones. Return whether one was replaced.

    Refuses with `InvalidInput` if several ids begin with the given text, and with `NotFound` and a hint if the id of an entry was
    given for a thread.
    """
    from postroom.cli.inbox.inputs import open_store_for

    store = open_store_for(args)
    owner = args.command.name.partition(" ")[0]
    replaced = False
    for number, (word, metavar) in enumerate(zip(args.words, args.command.words, strict=False)):
        whole = _expand(store, args, owner, metavar.strip("[]"), word)
        replaced |= whole != word
        args.words[number] = whole
    for flag in args.command.flags:
        value = args.values[flag.key]
        if isinstance(value, str):
            args.values[flag.key] = _expand(store, args, flag.name, flag.metavar, value)
        elif flag.repeat:
            args.values[flag.key] = tuple(_expand(store, args, flag.name, flag.metavar, one) for one in value)
        replaced |= args.values[flag.key] != value
    return replaced


def _expand(store: Store, args: Arguments, owner: str, metavar: str, given: str) -> str:
    """Return the only id that `given` is short for, or `given` itself if it is whole, unknown, or no id."""
    if f"{owner} {metavar}" in _WORKSPACE_IDS and given:
        return _find_workspace(store, given)
    list_ids = _LISTERS.get(f"{owner} {metavar}") or _LISTERS.get(metavar)
    if list_ids is None or not given:
        return given
    if len(given) >= UUID_CHARACTERS:
        if list_ids is _list_threads:
            _check_is_no_entry(store, args, given)
        return given
    found: list[str] = []
    for searched, identity in enumerate(list_ids(store, args)):
        if identity == given:
            return given
        if searched == MAX_SEARCHED_ROWS:
            hint = f"Only the newest {MAX_SEARCHED_ROWS} are searched for the beginning of an id."
            raise InvalidInput(f"{short_repr(given)} cannot be completed: there are too many", field="id", hint=f"{hint} Write it whole.")
        is_match = _may_shorten_mail(identity, given) if list_ids is _list_mail else _is_short_for(identity, given)
        if is_match and identity not in found:  # one id of mail may be of several senders
            found.append(identity)
    if len(found) > 1:
        shown = ", ".join(found[:MAX_SHOWN_IDS]) + (", …" if len(found) > MAX_SHOWN_IDS else "")
        advice = "Write more of it, or its last 4 characters" if any(map(is_generated, found)) else "Write more of it"
        raise InvalidInput(f"{short_repr(given)} is short for {len(found)} ids", field="id", hint=f"{advice}: {shown}.")
    if not found and list_ids is _list_threads:
        _check_is_no_entry(store, args, given)
    return found[0] if found else given


def _find_workspace(store: Store, given: str) -> str:
    """Return the id of the only workspace with this label, agent or folder, or whose id is shortened so. Refuses if there are several."""
    from postroom.people import list_workspaces

    folder = os.path.realpath(given)
    workspaces = list_workspaces(store)
    named = [one for one in workspaces if given in (one.label, one.agent) or folder == one.path]
    found = named or [one for one in workspaces if _is_short_for(one.workspace_id, given)]
    if len(found) > 1:
        shown = ", ".join(f"{one.workspace_id} ({one.path})" for one in found[:MAX_SHOWN_IDS])
        raise InvalidInput(f"{short_repr(given)} means {len(found)} workspaces", field="id", hint=f"Write the id of one: {shown}.")
    return found[0].workspace_id if found else given


def _is_short_for(identity: str, given: str) -> bool:
    """Return whether `given` is the beginning of an id, or the end of one that we made: ids that were made together begin alike."""
    return identity.startswith(given) or (len(given) >= MIN_END_CHARACTERS and identity.endswith(given) and is_generated(identity))


def _may_shorten_mail(identity: str, given: str) -> bool:
    """Return whether `given` is the beginning of an id of mail that we made, `{from}:{nanoseconds}`, with some of its digits.

    An id that a sender chose is written whole: order-1 and order-10 are two messages, also if only the second is there.
    """
    sender, _, digits = identity.rpartition(":")
    return identity.startswith(given) and len(digits) == NANOSECOND_DIGITS and digits.isdecimal() and len(given) > len(sender) + 1


def _check_is_no_entry(store: Store, args: Arguments, given: str) -> None:
    """Refuse with `NotFound` and the commands of entries, if the beginning of an entry's id was given for a thread."""
    if len(given) < MIN_ENTRY_CHARACTERS or not set(given) <= _UUID_CHARACTER_SET:
        return
    if any(identity.startswith(given) for identity in islice(_list_entries(store, args), MAX_SEARCHED_ROWS)):
        hint = f"It is an entry: `inbox entry show {given}` shows it, and `inbox entry reply {given} --body TEXT` answers it."
        raise NotFound(f"there is no thread {given}", hint=hint, thread_id=given)


def _list_threads(store: Store, args: Arguments) -> Iterator[str]:
    from postroom.work import list_threads

    pages = _read_pages("threads", lambda after: list_threads(store, limit=PAGE_ROWS, after=after))
    return (thread.thread_id for thread in pages)


def _list_entries(store: Store, args: Arguments) -> Iterator[str]:
    """Yield the ids of all entries and of the questions in them. An agent with a token of a server sees its own."""
    from postroom.people import history, own_entries

    try:
        yield from _page_entries(lambda before: history(store, section="inbox", limit=PAGE_ROWS, before=before))
        yield from _page_entries(lambda before: history(store, section="notices", limit=PAGE_ROWS, before=before))
    except Forbidden:
        agent = args.values.get("from") or args.agent
        if agent:
            yield from _page_entries(lambda before: own_entries(store, agent=agent, limit=PAGE_ROWS, before=before))


def _page_entries(read_page: Callable[[str | None], EntryPage]) -> Iterator[str]:
    before = None
    while True:
        page = read_page(before)
        for entry in page.entries:
            before = entry.id
            yield entry.id
            if entry.ask is not None and entry.ask.entry_id != entry.id:  # a question that was added to the entry
                yield entry.ask.entry_id
        if not page.has_more:
            return


def _list_mail(store: Store, args: Arguments) -> Iterator[str]:
    """Yield the ids in the mailbox of the command, or else in all: what waits, dead letters, and what was acked."""
    from postroom.mail import sessions

    named = (args.session or os.environ.get("MAILBOX_SESSION")) if "session" in args.values else None
    try:
        mailboxes = [named] if named else (one.session for one in _read_pages("sessions", lambda after: sessions(store, after=after)))
        for session in mailboxes:
            yield from _list_mailbox(store, session)
    except Forbidden:  # an agent with a token of a server has one mailbox
        yield from _list_mailbox(store, args.agent) if args.agent else ()


def _list_mailbox(store: Store, session: str) -> Iterator[str]:
    from postroom.mail import peek, peek_dead_letter
    from postroom.people import old_messages

    yield from (one.msg_id for one in _read_pages("messages", lambda after: peek(store, session, limit=PAGE_ROWS, after=after)))
    dead = _read_pages("entries", lambda after: peek_dead_letter(store, session, limit=PAGE_ROWS, after=after))
    yield from (one.message.msg_id for one in dead)
    acked = _read_pages("messages", lambda after: old_messages(store, agent=session, limit=PAGE_ROWS, after=after))
    yield from (one.id for one in acked)


def _read_pages(rows: str, read_page: Callable[[str | None], Any]) -> Iterator[Any]:
    """Yield the rows of every page. `rows` is the field that holds them, and `after` is the cursor of the page before."""
    after = None
    while True:
        page = read_page(after)
        yield from getattr(page, rows)
        after = page.after
        if not page.more:
            return


def _list_messages(store: Store, args: Arguments) -> Iterator[str]:
    """Yield the ids of the messages in the thread of the command, the newest page first."""
    from postroom.cli.inbox.inputs import require_thread
    from postroom.work import show

    thread_id = require_thread(args)
    before = None
    while True:
        shown = show(store, thread_id, before_event=before)
        yield from (message.message_id for message in shown.messages)
        before = shown.next_before_event
        if before is None:
            return


def _list_tasks(store: Store, args: Arguments) -> Iterator[str]:
    from postroom.tasks.listing import list_tasks

    before = None
    while True:
        page = list_tasks(store, limit=PAGE_ROWS, before_event=before)
        yield from (task.task_id for task in page.tasks)
        before = page.next_before_event
        if before is None:
            return


def _list_runs(store: Store, args: Arguments) -> Iterator[str]:
    from postroom.work import list_runs

    return (run.run_id for run in list_runs(store, limit=PAGE_ROWS) if run.run_id)


def _list_jobs(store: Store, args: Arguments) -> Iterator[str]:
    from postroom.tasks import Conductor

    pages = _read_pages("jobs", lambda after: Conductor(store).jobs(limit=PAGE_ROWS, after=after))
    return (job.job_id for job in pages)


def _list_channels(store: Store, args: Arguments) -> Iterator[str]:
    from postroom.people.channels.verbs import list_channels

    return (channel.channel_id for channel in list_channels(store).channels)


_LISTERS: dict[str, Callable[[Store, Arguments], Iterator[str]]] = {
    "THREAD_ID": _list_threads,
    "TASK_ID": _list_tasks,
    "--parent TASK": _list_tasks,
    "JOB_ID": _list_jobs,
    "--job ID": _list_jobs,
    "run RUN_ID": _list_runs,
    "channel ID": _list_channels,
    "entry ID": _list_entries,
    "--entry ID": _list_entries,
    "--add-to ID": _list_entries,
    "--before ID": _list_entries,
    "ENTRY_ID": _list_entries,
    "MESSAGE_ID": _list_messages,
    "--msg-id ID": _list_mail,
}
