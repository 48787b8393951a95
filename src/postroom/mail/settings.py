"""Settings: how a mailbox retries, and which other names it has. Stored, so that every process agrees."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import InvalidInput, NotFound
from postroom.core.letters import Alias, Policy
from postroom.core.verbs import verb
from postroom.mail import boxes
from postroom.store.attempts import retried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.store.port import Store

MOST_RETRIES = 1000


@verb
def policy(store: Store, session: str) -> Policy:
    """How a mailbox retries: as it was set, or by default."""
    checks.name("session", session)
    with store.read() as tx:
        row = tx.one(tx.sql.mailbox_find, session=session)
    return Policy(session) if row is None else Policy(session, *row[7:11])


@verb
@retried
def set_policy(
    store: Store,
    session: str,
    *,
    base_backoff_secs: float | None = None,
    max_retries: int | None = None,
    inflight_timeout_secs: float | None = None,
    ttl_secs: float | None = None,
) -> Policy:
    """Change how a mailbox retries; what is None stays. A TTL of 0 means none.

    A TTL holds for what is there already, counted from when each message was stored; the rest holds from the next move on.
    """
    checks.name("session", session)
    changes: dict[str, Any] = {}
    if base_backoff_secs is not None:
        changes["base_backoff_secs"] = checks.seconds("base_backoff_secs", base_backoff_secs, zero=True)
    if max_retries is not None:
        changes["max_retries"] = _retries(max_retries)
    if inflight_timeout_secs is not None:
        changes["inflight_timeout_secs"] = checks.seconds("inflight_timeout_secs", inflight_timeout_secs)
    if ttl_secs is not None:
        changes["ttl_secs"] = checks.seconds("ttl_secs", ttl_secs, zero=True) or None
    with store.write() as tx:
        box = boxes.opened(tx, session)
        boxes.carry_out(tx, box)
        box.settings.update(changes)
        if "ttl_secs" in changes:
            ttl = changes["ttl_secs"]
            tx.run(tx.sql.deliveries_expire, session=session, ttl=None if ttl is None else int(ttl * clock.SECOND))
            row = tx.one(tx.sql.delivery_next_due, session=session)
            box.next_due = row[0] if row else None
        box.close()
        boxes.announce(tx, session, "policy", source=session, msg_id=None, payload={"session": session, **box.settings})
        return Policy(session, **box.settings)


def _retries(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_RETRIES:
        raise InvalidInput(f"max_retries must be a whole number from 0 to {MOST_RETRIES}, not {value}", field="max_retries")
    return value


@verb
@retried
def set_alias(store: Store, name: str, session: str) -> Alias:
    """Let senders write `name` for a session. Resolved once, when a message is stored."""
    checks.name("name", name)
    checks.name("session", session)
    if name == session:
        raise InvalidInput("an alias cannot stand for itself", field="session", hint="Name another session.")
    with store.write() as tx:
        other = tx.one(tx.sql.alias_find, name=session)
        if other is not None:
            raise InvalidInput(f"{session} is itself an alias, of {other[0]}", field="session", hint=f"Name {other[0]} instead.")
        meant = tx.one(tx.sql.alias_of, session=name)
        if meant is not None:
            raise InvalidInput(
                f"{name} is the session that {meant[0]} stands for", field="name", hint=f"Remove the alias {meant[0]} first."
            )
        tx.run(tx.sql.alias_put, name=name, session=session)
    return Alias(name, session)


@verb
def find_alias(store: Store, name: str) -> Alias:
    """What a name stands for."""
    checks.name("name", name)
    with store.read() as tx:
        row = tx.one(tx.sql.alias_find, name=name)
    if row is None:
        raise _no_alias(name)
    return Alias(name, row[0])


@verb
@retried
def remove_alias(store: Store, name: str) -> Alias:
    """Messages to that name go to a mailbox of that name again."""
    checks.name("name", name)
    with store.write() as tx:
        row = tx.one(tx.sql.alias_find, name=name)
        if row is None:
            raise _no_alias(name)
        tx.run(tx.sql.alias_delete, name=name)
    return Alias(name, row[0])


def _no_alias(name: str) -> NotFound:
    return NotFound(f"there is no alias {name}", hint="See `mailbox alias`.", name=name)


@verb
def aliases(store: Store) -> tuple[Alias, ...]:
    """Every alias, by name."""
    with store.read() as tx:
        return tuple(Alias(*row) for row in tx.all(tx.sql.aliases_all, limit=10_000))
