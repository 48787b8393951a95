"""Lookup of the agents of a store. Every room calls it."""

from __future__ import annotations

from postroom.core import clock
from postroom.core.errors import InvalidInput
from postroom.core.text import short_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.passes import Pass
    from postroom.store.interface import Transaction


MAX_CHECKED_NAMES = 10_000  # that a store remembers


def is_person(tx: Transaction, name: str) -> bool:
    """Return whether a name is that of a person. False if the store does not know the name."""
    agent = tx.fetch_one(tx.sql.agent_find, name=name)
    return agent is not None and agent.is_person


def delete_pass(tx: Transaction, known: Pass) -> None:
    """Delete a pass. The caller may delete its own, by which it has proven itself."""
    tx.execute(tx.sql.pass_delete, token_hash=known.token_hash, kind=known.kind)
    tx.waive_requirement(tx.sql.pass_find, token_hash=known.token_hash)


def note_seen(tx: Transaction, field: str, name: str) -> None:
    """Record that an agent acts now. Every verb in which a name acts calls this. Refuses a name that `check_acting_name` refuses."""
    check_acting_name(tx, field, name)
    if not tx.was_just_seen(name):
        tx.execute(tx.sql.agent_seen, name=name, now=clock.format_stamp(tx.now()))


def check_acting_name(tx: Transaction, field: str, name: str) -> None:
    """Refuse a name that acts for the first time, and that can be mistaken for the name of a person.

    A process looks once at each name: a name that was fine stays, as all names do that the store knows.
    """
    if name in tx.checked_names:
        return
    refuse_lookalike(tx, field, name)
    if len(tx.checked_names) >= MAX_CHECKED_NAMES:
        tx.checked_names.clear()
    tx.checked_names.add(name)


def refuse_lookalike(tx: Transaction, field: str, name: str) -> None:
    """Refuse a name that is new to the store, and that can be mistaken for the name of a person."""
    people = tx.fetch_all(tx.sql.people_names_unless_known, name=name)
    if not people:
        return
    from postroom.core.lookalike_names import skeleton

    shape = skeleton(name)
    for person in people:
        if skeleton(person) == shape:
            hint = "Choose a name that cannot be mistaken for it."
            raise InvalidInput(f"{short_repr(name)} looks like the name of a person, {short_repr(person)}", field=field, hint=hint)
