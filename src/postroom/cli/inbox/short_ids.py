"""Complete ids that a person shortened: the beginning of an id is enough if only one id begins so."""

from __future__ import annotations

from itertools import islice

from postroom.core.errors import Forbidden, InvalidInput, NotFound
from postroom.core.text import short_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from postroom.cli.framework.parser import Arguments
    from postroom.store.interface import Store

MAX_SEARCHED_ROWS = 20_000
PAGE_ROWS = 500
UUID_CHARACTERS = 36
MAX_SHOWN_IDS = 5
MIN_ENTRY_CHARACTERS = 4
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
        whole = _expand(store, owner, metavar.strip("[]"), word)
        replaced |= whole != word
        args.words[number] = whole
    for flag in args.command.flags:
        value = args.values[flag.key]
        if isinstance(value, str):
            args.values[flag.key] = _expand(store, flag.name, flag.metavar, value)
        elif flag.repeat:
            args.values[flag.key] = tuple(_expand(store, flag.name, flag.metavar, one) for one in value)
        replaced |= args.values[flag.key] != value
    return replaced


def _expand(store: Store, owner: str, metavar: str, given: str) -> str:
    """Return the only id that begins with `given`, or `given` itself if it is whole, unknown, or no id."""
    list_ids = _LISTERS.get(f"{owner} {metavar}") or _LISTERS.get(metavar)
    if list_ids is None or not given:
        return given
    if len(given) >= UUID_CHARACTERS:
        if list_ids is _list_threads:
            _check_is_no_entry(store, given)
        return given
    found: list[str] = []
    for searched, identity in enumerate(list_ids(store)):
        if identity == given:
            return given
        if searched == MAX_SEARCHED_ROWS:
            hint = f"Only the newest {MAX_SEARCHED_ROWS} are searched for the beginning of an id."
            raise InvalidInput(f"{short_repr(given)} cannot be completed: there are too many", field="id", hint=f"{hint} Write it whole.")
        if identity.startswith(given):
            found.append(identity)
    if len(found) > 1:
        shown = ", ".join(found[:MAX_SHOWN_IDS]) + (", …" if len(found) > MAX_SHOWN_IDS else "")
        raise InvalidInput(f"{short_repr(given)} is the beginning of {len(found)} ids", field="id", hint=f"Write more of it: {shown}.")
    if not found and list_ids is _list_threads:
        _check_is_no_entry(store, given)
    return found[0] if found else given


def _check_is_no_entry(store: Store, given: str) -> None:
    """Refuse with `NotFound` and the commands of entries, if the beginning of an entry's id was given for a thread."""
    if len(given) < MIN_ENTRY_CHARACTERS or not set(given) <= _UUID_CHARACTER_SET:
        return
    try:
        is_entry = any(identity.startswith(given) for identity in islice(_list_entries(store), MAX_SEARCHED_ROWS))
    except Forbidden:  # the entries of a server are for people
        return
    if is_entry:
        hint = f"It is an entry: `inbox entry show {given}` shows it, and `inbox entry reply {given} --body TEXT` answers it."
        raise NotFound(f"there is no thread {given}", hint=hint, thread_id=given)


def _list_threads(store: Store) -> Iterator[str]:
    from postroom.work import list_threads

    after = None
    while True:
        page = list_threads(store, limit=PAGE_ROWS, after=after)
        yield from (thread.thread_id for thread in page.threads)
        after = page.after
        if not page.more:
            return


def _list_entries(store: Store) -> Iterator[str]:
    from postroom.people import history

    for section in ("inbox", "notices"):
        before = None
        while True:
            page = history(store, section=section, limit=PAGE_ROWS, before=before)
            for entry in page.entries:
                before = entry.id
                yield entry.id
                if entry.ask is not None and entry.ask.entry_id != entry.id:  # a question that was added to the entry
                    yield entry.ask.entry_id
            if not page.has_more:
                break


def _list_tasks(store: Store) -> Iterator[str]:
    from postroom.tasks.listing import list_tasks

    before = None
    while True:
        page = list_tasks(store, limit=PAGE_ROWS, before_event=before)
        yield from (task.task_id for task in page.tasks)
        before = page.next_before_event
        if before is None:
            return


def _list_workspaces(store: Store) -> Iterator[str]:
    from postroom.people import list_workspaces

    return (workspace.workspace_id for workspace in list_workspaces(store))


def _list_runs(store: Store) -> Iterator[str]:
    from postroom.work import list_runs

    return (run.run_id for run in list_runs(store, limit=PAGE_ROWS) if run.run_id)


def _list_jobs(store: Store) -> Iterator[str]:
    from postroom.tasks import Conductor

    after = None
    while True:
        page = Conductor(store).jobs(limit=PAGE_ROWS, after=after)
        yield from (job.job_id for job in page.jobs)
        after = page.after
        if not page.more:
            return


def _list_channels(store: Store) -> Iterator[str]:
    from postroom.people.channels.verbs import list_channels

    return (channel.channel_id for channel in list_channels(store).channels)


_LISTERS: dict[str, Callable[[Store], Iterator[str]]] = {
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
    "workspace ID": _list_workspaces,
    "--workspace ID": _list_workspaces,
}
