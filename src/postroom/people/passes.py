"""Issue, check and revoke the tokens by which the server authenticates people, and agents without a workspace.

A person has a link, which works once and is exchanged for a browser session, and bearer tokens for scripts. An agent has one token.
"""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import InvalidInput, NotFound
from postroom.core.records.people import PersonSession
from postroom.core.verbs import READ, SERVER_MACHINE, WRITE, verb
from postroom.people import repository, tokens
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Store, Transaction

LINK, SESSION, BEARER, AGENT = "link", "session", "bearer", "agent"
PERSON_KINDS = (SESSION, BEARER)
LINK_SECONDS = 3600.0
SESSION_SECONDS = 30 * 86_400.0
_PREFIXES = {LINK: "prl", SESSION: "prs", BEARER: "prp", AGENT: "pra"}


@verb(caller=SERVER_MACHINE, mode=WRITE)
@retry_on_contention
def issue_link(store: Store, *, person: str, seconds: float = LINK_SECONDS) -> str:
    """Return a token with which a person can sign in once, within `seconds`."""
    checks.seconds("seconds", seconds)
    with store.write() as tx:
        return _issue_to_person(tx, LINK, person, seconds)[0]


@verb(caller=SERVER_MACHINE, mode=WRITE)
@retry_on_contention
def issue_bearer(store: Store, *, person: str) -> str:
    """Return a token for scripts that act as a person. It is valid until it is revoked."""
    with store.write() as tx:
        return _issue_to_person(tx, BEARER, person, None)[0]


@verb(caller=SERVER_MACHINE, mode=WRITE)
@retry_on_contention
def issue_agent_token(store: Store, *, name: str) -> str:
    """Return a token that authenticates an agent by its name. Its previous token is void at once."""
    checks.name("name", name)
    with store.write() as tx:
        known = tx.fetch_one(tx.sql.agent_lock, name=name)
        if known is None:
            tx.execute(tx.sql.agent_put, name=name, kind="agent", now=clock.format_stamp(tx.now()))
            known = tx.fetch_one(tx.sql.agent_lock, name=name)
        if known is None or known.is_person:
            raise InvalidInput(f"{name} is a person", field="name", hint="People sign in: `inbox sign-in` makes a link.")
        _delete_agent_tokens(tx, name)
        return _insert_pass(tx, AGENT, name, None)[0]


@verb(caller=SERVER_MACHINE, mode=WRITE)
@retry_on_contention
def revoke_agent_token(store: Store, *, name: str) -> bool:
    """Revoke the token of an agent. Return False if it had none."""
    checks.name("name", name)
    with store.write() as tx:
        if tx.fetch_one(tx.sql.agent_lock, name=name) is None:
            raise NotFound(f"no agent {name} was ever seen", hint="See `inbox agent list`.", name=name)
        return _delete_agent_tokens(tx, name)


def _delete_agent_tokens(tx: Transaction, name: str) -> bool:
    hashes = tx.fetch_all(tx.sql.passes_of, kind=AGENT, name=name)
    for token_hash in hashes:
        tx.execute(tx.sql.pass_delete, token_hash=token_hash, kind=AGENT)
    return bool(hashes)


@verb(caller=SERVER_MACHINE, mode=WRITE)
@retry_on_contention
def redeem(store: Store, token: str) -> PersonSession:
    """Exchange a link for a session. If several callers try, exactly one succeeds and the others get `NotFound`."""
    link_void = NotFound("this link was used already, or is too old", hint="Make a new one with `inbox sign-in`.")
    with store.write() as tx:
        person = find_person(tx, token, (LINK,))
        if person is None:
            raise link_void
        tx.execute_exactly_one(link_void, tx.sql.pass_delete, token_hash=tokens.hash_token(token), kind=LINK)
        session, expires_at = _issue_to_person(tx, SESSION, person, SESSION_SECONDS)
    return PersonSession(person, session, expires_at or "")


@verb(caller=SERVER_MACHINE, mode=READ)
def person_of(store: Store, token: str) -> str:
    """Return the person who has this session or bearer token. Refuses with `NotFound`."""
    with store.read() as tx:
        person = find_person(tx, token)
    if person is None:
        raise NotFound("this token belongs to no person", hint="Sign in again: `inbox sign-in` makes a link.")
    return person


@verb(caller=SERVER_MACHINE, mode=WRITE)
@retry_on_contention
def revoke(store: Store, token: str) -> None:
    """Revoke a token of any kind."""
    with store.write() as tx:
        for kind in _PREFIXES:
            tx.execute(tx.sql.pass_delete, token_hash=tokens.hash_token(token), kind=kind)


def _issue_to_person(tx: Transaction, kind: str, person: str, seconds: float | None) -> tuple[str, str | None]:
    return _insert_pass(tx, kind, repository.require_person(tx, "person", person), seconds)


def _insert_pass(tx: Transaction, kind: str, name: str, seconds: float | None) -> tuple[str, str | None]:
    tx.execute(tx.sql.pass_expire, now=clock.format_stamp(tx.now()))
    token = tokens.new_token(_PREFIXES[kind])
    expires_at = None if seconds is None else clock.format_stamp(tx.now() + int(seconds * clock.MICROSECONDS_PER_SECOND))
    facts = {"kind": kind, "person": name, "created_at": clock.format_stamp(tx.now()), "expires_at": expires_at}
    tx.execute(tx.sql.pass_insert, token_hash=tokens.hash_token(token), **facts)
    return token, expires_at


def find_person(tx: Transaction, token: str, kinds: tuple[str, ...] = PERSON_KINDS) -> str | None:
    """Return the person who has a valid token of one of these kinds, or None."""
    kind, name = find_holder(tx, token)
    return name if kind in kinds else None


def find_holder(tx: Transaction, token: str) -> tuple[str, str]:
    """Return the kind of a token and the name of its holder, or two empty texts if it is unknown or expired."""
    row = tx.fetch_one(tx.sql.pass_find, token_hash=tokens.hash_token(token))
    if row is None or (row.expires_at is not None and row.expires_at <= clock.format_stamp(tx.now())):
        return "", ""
    return row.kind, row.person
