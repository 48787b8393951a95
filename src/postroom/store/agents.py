"""Lookup of the agents of a store. Every room calls it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Transaction


def is_person(tx: Transaction, name: str) -> bool:
    """Return whether a name is that of a person. False if the store does not know the name."""
    agent = tx.fetch_one(tx.sql.agent_find, name=name)
    return agent is not None and agent.is_person
