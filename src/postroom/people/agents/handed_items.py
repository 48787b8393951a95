"""Items that were handed to an agent and are not confirmed yet. Not in handovers.py, because a hook imports this module alone."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.handovers import HandedItem
    from postroom.store.interface import Transaction

MAIL, ANSWER, THREAD = "mail", "answer", "thread"
READ_ITEMS = 1000  # of the store in one statement


def list_clients(tx: Transaction, *, agent: str) -> list[str]:
    """Return the clients that were handed something for an agent and have not confirmed it."""
    return sorted({item.client for item in read_items(tx, agent)})


def handed_names(tx: Transaction, agent: str) -> set[tuple[str, str, str]]:
    """Return the kind, id and sender of what is handed to an agent now."""
    return {(item.kind, item.item_id, item.sender) for item in read_items(tx, agent) if item.until > tx.now()}


def read_items(tx: Transaction, agent: str) -> list[HandedItem]:
    """Return what was handed to an agent and is not confirmed, in the order in which it was handed."""
    items: list[HandedItem] = []
    last = ("", "", "")
    while page := tx.fetch_all(
        tx.sql.handovers_of, agent=agent, after_kind=last[0], after_id=last[1], after_sender=last[2], limit=READ_ITEMS
    ):
        items += page
        last = (page[-1].kind, page[-1].item_id, page[-1].sender)
        if len(page) < READ_ITEMS:
            break
    return sorted(items, key=lambda item: (item.handed_at, item.position))
