"""The ids that outlive their rows: what was removed is not accepted a second time. The rooms ask it before they use a given id."""

from __future__ import annotations

from postroom.core.errors import InvalidState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Transaction

THREAD, MESSAGE, TASK = "thread", "message", "task"


def is_removed(tx: Transaction, kind: str, known_id: str) -> bool:
    """Return whether a row was removed, or is being removed: a long thread goes in several transactions, its messages first."""
    return tx.fetch_one(tx.sql.removed_find, kind=kind, id=known_id) is not None


def check_new(tx: Transaction, kind: str, given_id: str | None) -> None:
    """Refuse with `InvalidState` an id, or the key of a message, whose row was removed. None is no id."""
    if given_id is not None and is_removed(tx, kind, given_id):
        named = "a message with this key was sent" if kind == MESSAGE else f"there was a {kind} {given_id}"
        raise InvalidState(f"{named}, and it has been removed", hint="Nothing was sent again. Choose a new key or id for something new.")
