"""Settings of a mailbox: its retry policy and its aliases. They are stored, so that all processes use the same ones."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import InvalidInput, InvalidState, NotFound
from postroom.core.records.mail import AliasPage, MailboxAlias, MailboxPolicy
from postroom.core.verbs import OWN_VIEW, PEOPLE, READ, WRITE, verb
from postroom.mail import identity, transitions
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.store.interface import Store, Transaction

MAX_RETRIES = 1000


@verb(caller="session", access=OWN_VIEW, mode=READ)
def policy(store: Store, session: str) -> MailboxPolicy:
    """Return the retry policy of a mailbox, with defaults for a mailbox that does not exist yet."""
    checks.name("session", session)
    with store.read() as tx:
        session = identity.resolve_session(tx, session)
        row = tx.fetch_one(tx.sql.mailbox_find, session=session)
    if row is None:
        return MailboxPolicy(session)
    return MailboxPolicy(session, row.base_backoff_secs, row.max_retries, row.inflight_timeout_secs, row.ttl_secs)


@verb(caller=PEOPLE, mode=WRITE)
@retry_on_contention
def set_policy(
    store: Store,
    session: str,
    *,
    base_backoff_secs: float | None = None,
    max_retries: int | None = None,
    inflight_timeout_secs: float | None = None,
    ttl_secs: float | None = None,
) -> MailboxPolicy:
    """Change the retry policy of a mailbox. Arguments that are None change nothing. A TTL of 0 removes the TTL.

    A new TTL also applies to stored messages, from the time at which each was stored. The other settings apply from the next
    move of a message on.
    """
    checks.name("session", session)
    changes: dict[str, Any] = {}
    if base_backoff_secs is not None:
        changes["base_backoff_secs"] = checks.seconds("base_backoff_secs", base_backoff_secs, allow_zero=True)
    if max_retries is not None:
        changes["max_retries"] = _check_max_retries(max_retries)
    if inflight_timeout_secs is not None:
        changes["inflight_timeout_secs"] = checks.seconds("inflight_timeout_secs", inflight_timeout_secs)
    if ttl_secs is not None:
        changes["ttl_secs"] = checks.seconds("ttl_secs", ttl_secs, allow_zero=True) or None
    with store.write() as tx:
        session = identity.resolve_session(tx, session)
        locked = transitions.open_mailbox(tx, session)
        transitions.apply_overdue_moves(tx, locked)
        locked.settings.update(changes)
        if "ttl_secs" in changes:
            ttl = changes["ttl_secs"]
            tx.execute(tx.sql.deliveries_expire, session=session, ttl=None if ttl is None else int(ttl * clock.MICROSECONDS_PER_SECOND))
            transitions.read_next_due(tx, locked)
        locked.write_back()
        transitions.append_mail_event(tx, session, "policy", source=session, msg_id=None, payload={"session": session, **locked.settings})
        return MailboxPolicy(session, **locked.settings)


def _check_max_retries(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_RETRIES:
        raise InvalidInput(f"max_retries must be a whole number from 0 to {MAX_RETRIES}, not {value}", field="max_retries")
    return value


@verb(caller=PEOPLE, mode=WRITE)
@retry_on_contention
def set_alias(store: Store, name: str, session: str) -> MailboxAlias:
    """Make `name` an alias of a session, for senders and receivers. A message is stored in the session of that moment.

    Refuses with `InvalidInput` a session that is itself an alias, and a name that has aliases. Refuses with `InvalidState` a name whose
    own mailbox holds messages: no receiver could reach them any more.
    """
    checks.name("name", name)
    checks.name("session", session)
    if name == session:
        raise InvalidInput("an alias cannot stand for itself", field="session", hint="Name another session.")
    with store.write() as tx:
        # A sender that looked for the alias before it was there must not store its message behind it.
        tx.execute(tx.sql.mailboxes_lock_all)
        other = tx.fetch_one(tx.sql.alias_find, name=session)
        if other is not None:
            raise InvalidInput(f"{session} is itself an alias, of {other}", field="session", hint=f"Name {other} instead.")
        alias = tx.fetch_one(tx.sql.alias_of, session=name)
        if alias is not None:
            raise InvalidInput(f"{name} is the session that {alias} stands for", field="name", hint=f"Remove the alias {alias} first.")
        _refuse_mailbox_with_messages(tx, name)
        tx.execute(tx.sql.alias_put, name=name, session=session)
    return MailboxAlias(name, session)


def _refuse_mailbox_with_messages(tx: Transaction, name: str) -> None:
    row = tx.fetch_one(tx.sql.mailbox_find, session=name)
    if row is not None and row.unfinished_count + row.dead_letter:
        raise InvalidState(
            f"the mailbox {name} holds {row.unfinished_count} messages and {row.dead_letter} dead letters",
            hint="Let them be taken, or remove them with `mailbox purge` and `mailbox purge-dead-letter`.",
        )


@verb(caller=PEOPLE, mode=READ)
def find_alias(store: Store, name: str) -> MailboxAlias:
    """Return the alias of a name. Refuses with `NotFound`."""
    checks.name("name", name)
    with store.read() as tx:
        session = tx.fetch_one(tx.sql.alias_find, name=name)
    if session is None:
        raise _no_alias_error(name)
    return MailboxAlias(name, session)


@verb(caller=PEOPLE, mode=WRITE)
@retry_on_contention
def remove_alias(store: Store, name: str) -> MailboxAlias:
    """Remove an alias and return it. Later messages to the name go to a mailbox of that name. Refuses with `NotFound`."""
    checks.name("name", name)
    with store.write() as tx:
        session = tx.fetch_one(tx.sql.alias_find, name=name)
        if session is None:
            raise _no_alias_error(name)
        tx.execute(tx.sql.alias_delete, name=name)
    return MailboxAlias(name, session)


def _no_alias_error(name: str) -> NotFound:
    return NotFound(f"there is no alias {name}", hint="See `mailbox alias`.", name=name)


@verb(caller=PEOPLE, mode=READ)
def aliases(store: Store, *, limit: int = 1000, after: str | None = None) -> AliasPage:
    """List the aliases, sorted by name. `after` is the cursor of a page."""
    checks.limit("limit", limit)
    after = "" if after is None else checks.name("after", after)
    with store.read() as tx:
        found = tx.fetch_all(tx.sql.aliases_all, after=after, limit=limit + 1)
    more = len(found) > limit
    return AliasPage(tuple(found[:limit]), more, found[limit - 1].name if more else None)
