"""Passes: what a person comes in with. A link works once and becomes a browser's session; a bearer token is for scripts."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.entries import Session
from postroom.core.errors import NotFound
from postroom.people import ledger, tokens
from postroom.store.attempts import retried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.port import Store, Transaction

LINK, SESSION, BEARER = "link", "session", "bearer"
LINK_SECONDS = 3600.0
SESSION_SECONDS = 30 * 86_400.0
_PREFIXES = {LINK: "prl", SESSION: "prs", BEARER: "prp"}


@retried
def issue_link(store: Store, *, person: str, seconds: float = LINK_SECONDS) -> str:
    """A token that lets a person in once, for a while."""
    checks.seconds("seconds", seconds)
    with store.write() as tx:
        return _issue(tx, LINK, person, seconds)[0]


@retried
def issue_bearer(store: Store, *, person: str) -> str:
    """A token for scripts that act for a person, until it is revoked."""
    with store.write() as tx:
        return _issue(tx, BEARER, person, None)[0]


@retried
def redeem(store: Store, token: str) -> Session:
    """Exchange a link for a session. Of any number who try, one gets in."""
    gone = NotFound("this link was used already, or is too old", hint="Make a new one with `inbox sign-in`.")
    with store.write() as tx:
        person = person_by(tx, token, (LINK,))
        if person is None:
            raise gone
        tx.must(gone, tx.sql.pass_delete, token_hash=tokens.hashed(token), kind=LINK)
        session, expires_at = _issue(tx, SESSION, person, SESSION_SECONDS)
    return Session(person, session, expires_at or "")


def person_of(store: Store, token: str) -> str:
    """Who comes in with a session or a bearer token."""
    with store.read() as tx:
        person = person_by(tx, token)
    if person is None:
        raise NotFound("nobody has this token", hint="Sign in again: `inbox sign-in` makes a link.")
    return person


@retried
def revoke(store: Store, token: str) -> None:
    """Void at once, whatever kind it is of."""
    with store.write() as tx:
        for kind in _PREFIXES:
            tx.run(tx.sql.pass_delete, token_hash=tokens.hashed(token), kind=kind)


def _issue(tx: Transaction, kind: str, person: str, seconds: float | None) -> tuple[str, str | None]:
    ledger.human(tx, "person", person)
    tx.run(tx.sql.pass_expire, now=clock.stamp(tx.now()))
    token = tokens.fresh(_PREFIXES[kind])
    expires_at = None if seconds is None else clock.stamp(tx.now() + int(seconds * clock.SECOND))
    facts = {"kind": kind, "person": person, "created_at": clock.stamp(tx.now()), "expires_at": expires_at}
    tx.run(tx.sql.pass_insert, token_hash=tokens.hashed(token), **facts)
    return token, expires_at


def person_by(tx: Transaction, token: str, kinds: tuple[str, ...] = (SESSION, BEARER)) -> str | None:
    """Whose pass it is, if it is one, of these kinds, and not too old."""
    row = tx.one(tx.sql.pass_find, token_hash=tokens.hashed(token))
    if row is None or row[0] not in kinds or (row[3] is not None and row[3] <= clock.stamp(tx.now())):
        return None
    return str(row[1])
