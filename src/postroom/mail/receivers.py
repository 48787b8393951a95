"""Receivers: tell the sender of a message that its receiver was never seen, and resembles a name that was."""

from __future__ import annotations

from postroom.core.errors import NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Transaction

MAX_COMPARED_NAMES = 100


def note_new_receiver(tx: Transaction, name: str, *, strict: bool) -> str:
    """Return a note about a name that has no mailbox yet, if it resembles a mailbox, an alias or an agent. Else an empty text.

    A first message makes a mailbox, so a name that resembles nothing is no mistake. `strict` refuses it all the same, with `NotFound`.
    """
    if tx.fetch_one(tx.sql.agent_find, name=name) is not None:
        return ""
    note, similar = f"nobody called {name} has been seen", _find_similar(tx, name)
    if strict:
        hint = f"Did you mean {similar}?" if similar else "See `mailbox sessions`; without --strict, the message makes the mailbox."
        raise NotFound(note, hint=hint, name=name)
    return f"{note}; did you mean {similar}?" if similar else ""


def _find_similar(tx: Transaction, name: str) -> str | None:
    """Return the known name that resembles this one. None if there are so many that programs make them: comparing costs time."""
    from postroom.core.similar_names import find_similar

    page = {"after": "", "limit": MAX_COMPARED_NAMES + 1}
    names = {mailbox.session for mailbox in tx.fetch_all(tx.sql.mailboxes_all, **page)}
    if len(names) > MAX_COMPARED_NAMES:
        return None
    names |= {alias.name for alias in tx.fetch_all(tx.sql.aliases_all, **page)}
    names |= {agent.name for agent in tx.fetch_all(tx.sql.agents_all, **page)}
    return find_similar(name, sorted(names - {name}))
