"""Lookup of the agents of a store. Every room calls it."""

from __future__ import annotations

from postroom.core.errors import InvalidInput
from postroom.core.text import short_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Transaction


def is_person(tx: Transaction, name: str) -> bool:
    """Return whether a name is that of a person. False if the store does not know the name."""
    agent = tx.fetch_one(tx.sql.agent_find, name=name)
    return agent is not None and agent.is_person


def refuse_lookalike(tx: Transaction, field: str, name: str) -> None:
    """Refuse a name that is new to the store, and that can be mistaken for the name of a person."""
    if tx.fetch_one(tx.sql.agent_find, name=name) is not None:
        return
    from postroom.core.lookalikes import skeleton

    shape = skeleton(name)
    for person in tx.fetch_all(tx.sql.people_names):
        if person != name and skeleton(person) == shape:
            hint = "Choose a name that cannot be mistaken for it."
            raise InvalidInput(f"{short_repr(name)} looks like the name of a person, {short_repr(person)}", field=field, hint=hint)
