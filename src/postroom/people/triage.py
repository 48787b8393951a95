"""The states by which a person keeps the inbox empty: done, snoozed, pinned, all read, and workspaces that are muted."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import InvalidInput
from postroom.core.records.people import INBOX, SNOOZED, TRIAGE_STATES, UNTIL_ACTIVITY, Entry, Workspace, to_milliseconds
from postroom.core.verbs import PEOPLE, STEPS, WRITE, verb
from postroom.people import entries_mirror, repository
from postroom.people.access import workspaces
from postroom.people.questions import due_questions
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Store

MAX_READ_AT_ONCE = 500


@verb(caller=PEOPLE, mode=WRITE)
def set_state(store: Store, entry_id: str, *, person: str, state: str, until: int | None = None) -> Entry:
    """Move an entry to `inbox`, `done` or `snoozed`, and return it. Done and snoozed entries are read.

    `until`, in milliseconds since 1970, is when a snoozed entry comes back, unread; without it, when its agent adds something.
    An open question stays among the open questions in every state. Refuses with `InvalidInput` a time that has passed.
    """
    checks.name("person", person)
    checks.choice("state", state, TRIAGE_STATES)
    if until is not None and (state != SNOOZED or isinstance(until, bool) or not isinstance(until, int)):
        raise InvalidInput("until is the time at which a snoozed entry comes back", field="until", hint="Give milliseconds since 1970.")
    due_questions.sync(store)
    changed = _write_state(store, entry_id, person, state, until)
    entries_mirror.update_mirror(store)
    return changed


@retry_on_contention
def _write_state(store: Store, entry_id: str, person: str, state: str, until: int | None) -> Entry:
    with store.write() as tx:
        entry = repository.lock_matter(tx, entry_id)
        repository.require_person(tx, "person", person)
        if until is not None and not to_milliseconds(tx.now()) < until < UNTIL_ACTIVITY:
            raise InvalidInput("that time has passed", field="until", hint="Choose a later one.")
        wanted = (until or UNTIL_ACTIVITY) if state == SNOOZED else None
        if (entry.triage, entry.snoozed_until) == (state, wanted):
            return entry
        step = {INBOX: "reopened"}.get(state, state)
        seq = repository.append_entry_event(tx, step, entry.id, source=person, **repository.event_facts(entry))
        changed = repository.write_triage(tx, entry, state, changed_seq=seq, until=wanted)
        return changed if state == INBOX else repository.mark_entry_read(tx, changed, person)


@verb(caller=PEOPLE, mode=WRITE)
def pin_entry(store: Store, entry_id: str, *, person: str, pinned: bool = True) -> Entry:
    """Keep an entry at the top of the list, or stop that. Return it."""
    checks.name("person", person)
    due_questions.sync(store)
    changed = _write_pin(store, entry_id, person, pinned)
    entries_mirror.update_mirror(store)
    return changed


@retry_on_contention
def _write_pin(store: Store, entry_id: str, person: str, pinned: bool) -> Entry:
    with store.write() as tx:
        entry = repository.lock_matter(tx, entry_id)
        repository.require_person(tx, "person", person)
        if (entry.pinned_at is not None) == pinned:
            return entry
        step = "pinned" if pinned else "unpinned"
        seq = repository.append_entry_event(tx, step, entry.id, source=person, **repository.event_facts(entry))
        changed = entry.replace(pinned_at=clock.format_stamp(tx.now()) if pinned else None, changed_seq=seq)
        repository.write_states(tx, changed)
        return changed


@verb(caller=PEOPLE, mode=STEPS)
def mark_all_read(store: Store, *, person: str, section: str = INBOX, workspace_id: str | None = None) -> int:
    """Mark every unread entry of a section, or of a workspace, as read. Return their number."""
    checks.name("person", person)
    due_questions.sync(store)
    total = 0
    while (count := _read_batch(store, person, section, workspace_id)) is not None:
        total += count
    return total


@retry_on_contention
def _read_batch(store: Store, person: str, section: str, workspace_id: str | None) -> int | None:
    """Mark a batch of unread entries as read. Return their number, or None if there were none."""
    from postroom.people import entries

    with store.write() as tx:
        repository.require_person(tx, "person", person)
        page = entries.read_page(tx, limit=MAX_READ_AT_ONCE, section=section, workspace_id=workspace_id, unread=True)
        found = [repository.lock_entry_if_exists(tx, listed.id) for listed in page.entries]  # one may have been deleted meanwhile
        for entry in filter(None, found):
            repository.mark_entry_read(tx, entry, person)
    return sum(entry is not None for entry in found) if page.entries else None


@verb(caller=PEOPLE, mode=WRITE)
@retry_on_contention
def mute_workspace(store: Store, workspace_id: str, *, muted: bool = True) -> Workspace:
    """Let what a workspace pushes arrive as done, or stop that. Its questions still arrive in the inbox. Return the workspace."""
    with store.write() as tx:
        workspace = workspaces.get_workspace(tx, workspace_id)
        if (workspace.muted_at is not None) == muted:
            return workspace
        changed = workspace.replace(muted_at=clock.format_stamp(tx.now()) if muted else None)
        tx.execute(tx.sql.workspace_mute, workspace_id=workspace_id, muted_at=changed.muted_at)
        return changed
