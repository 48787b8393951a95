"""Passes: what somebody comes in with. Of a person: a link, which works once and becomes a browser's session, and a bearer token for
scripts. Of an agent that has no workspace: a token of its name."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.entries import Session
from postroom.core.errors import InvalidInput, NotFound
from postroom.core.verbs import verb
from postroom.people import ledger, tokens
from postroom.store.attempts import retried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.port import Store, Transaction

LINK, SESSION, BEARER, AGENT = "link", "session", "bearer", "agent"
OF_PEOPLE = (SESSION, BEARER)
LINK_SECONDS = 3600.0
SESSION_SECONDS = 30 * 86_400.0
_PREFIXES = {LINK: "prl", SESSION: "prs", BEARER: "prp", AGENT: "pra"}


@verb
@retried
def issue_link(store: Store, *, person: str, seconds: float = LINK_SECONDS) -> str:
    """A token that lets a person in once, for a while."""
    checks.seconds("seconds", seconds)
    with store.write() as tx:
        return _issue(tx, LINK, person, seconds)[0]


@verb
@retried
def issue_bearer(store: Store, *, person: str) -> str:
    """A token for scripts that act for a person, until it is revoked."""
    with store.write() as tx:
        return _issue(tx, BEARER, person, None)[0]


@verb
@retried
def issue_agent_token(store: Store, *, name: str) -> str:
    """A token with which an agent is known by its name, from anywhere. The one before is void at once."""
    checks.name("name", name)
    with store.write() as tx:
        known = tx.one(tx.sql.agent_lock, name=name)
        if known is None:
            tx.run(tx.sql.agent_put, name=name, kind="agent", now=clock.stamp(tx.now()))
            known = tx.one(tx.sql.agent_lock, name=name)
        if known is None or known[1] == "human":
            raise InvalidInput(f"{name} is a person", field="name", hint="People sign in: `inbox sign-in` makes a link.")
        _void(tx, name)
        return _insert(tx, AGENT, name, None)[0]


@verb
@retried
def revoke_agent_token(store: Store, *, name: str) -> bool:
    """Void at once. False if there was none."""
    checks.name("name", name)
    with store.write() as tx:
        if tx.one(tx.sql.agent_lock, name=name) is None:
            raise NotFound(f"no agent {name} was ever seen", hint="See `inbox agent list`.", name=name)
        return _void(tx, name)


def _void(tx: Transaction, name: str) -> bool:
    rows = tx.all(tx.sql.passes_of, kind=AGENT, name=name)
    for (token_hash,) in rows:
        tx.run(tx.sql.pass_delete, token_hash=token_hash, kind=AGENT)
    return bool(rows)


@verb
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


@verb
def person_of(store: Store, token: str) -> str:
    """Who comes in with a session or a bearer token."""
    with store.read() as tx:
        person = person_by(tx, token)
    if person is None:
        raise NotFound("nobody has this token", hint="Sign in again: `inbox sign-in` makes a link.")
    return person


@verb
@retried
def revoke(store: Store, token: str) -> None:
    """Void at once, whatever kind it is of."""
    with store.write() as tx:
        for kind in _PREFIXES:
            tx.run(tx.sql.pass_delete, token_hash=tokens.hashed(token), kind=kind)


def _issue(tx: Transaction, kind: str, person: str, seconds: float | None) -> tuple[str, str | None]:
    return _insert(tx, kind, ledger.human(tx, "person", person), seconds)


def _insert(tx: Transaction, kind: str, name: str, seconds: float | None) -> tuple[str, str | None]:
    tx.run(tx.sql.pass_expire, now=clock.stamp(tx.now()))
    token = tokens.fresh(_PREFIXES[kind])
    expires_at = None if seconds is None else clock.stamp(tx.now() + int(seconds * clock.SECOND))
    facts = {"kind": kind, "person": name, "created_at": clock.stamp(tx.now()), "expires_at": expires_at}
    tx.run(tx.sql.pass_insert, token_hash=tokens.hashed(token), **facts)
    return token, expires_at


def person_by(tx: Transaction, token: str, kinds: tuple[str, ...] = OF_PEOPLE) -> str | None:
    """Whose pass it is, if it is one, of these kinds, and not too old."""
    kind, name = holder(tx, token)
    return name if kind in kinds else None


def holder(tx: Transaction, token: str) -> tuple[str, str]:
    """Of what kind a pass is, and of whom; of one that is none, or too old, nothing and nobody."""
    row = tx.one(tx.sql.pass_find, token_hash=tokens.hashed(token))
    if row is None or (row[3] is not None and row[3] <= clock.stamp(tx.now())):
        return "", ""
    return str(row[0]), str(row[1])
