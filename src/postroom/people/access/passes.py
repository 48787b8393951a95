"""Issue, check and revoke the tokens by which the server authenticates people, and agents without a workspace.

A person has a link, which works once and is exchanged for a browser session, and one bearer token for scripts, on PostgreSQL one for
each server. An agent has one token. A pass for one question has the entry of the question as its scope, and answers nothing else.
A pass of a person is void as soon as the name is no longer a person's.
"""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import InvalidInput, NotFound
from postroom.core.records.passes import PASS_ID_DIGITS, Pass, PassPage, PersonSession
from postroom.core.text import short_repr
from postroom.core.verbs import PEOPLE, READ, SERVER_MACHINE, WRITE, verb
from postroom.people import repository
from postroom.people.access import tokens
from postroom.store.agents import delete_pass, refuse_lookalike
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from postroom.core.records.passes import ListedPass
    from postroom.store.interface import Store, Transaction

LINK, SESSION, BEARER, AGENT, QUESTION = "link", "session", "bearer", "agent", "question"
PERSON_KINDS = (SESSION, BEARER)
OWN_SCOPE, ALL_SCOPE = SCOPES = ("own", "all")  # a token with the scope `all` makes its agent a leader
LINK_SECONDS = 3600.0
SESSION_SECONDS = 30 * 86_400.0
BEARER_SECONDS = 90 * 86_400.0  # from the last use
NO_LIMIT = 2**31 - 1
MIN_ID_DIGITS = 4  # of a shortened id
MAX_NAMED_PASSES = 5  # in a refusal
USE_SECONDS = 86_400.0  # how exact the time of the last use is: one write a day at most
_PREFIXES = {LINK: "prl", SESSION: "prs", BEARER: "prp", AGENT: "pra", QUESTION: "prq"}


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
    """Return a token for scripts that act as a person. The person's previous one is void at once.

    It expires `BEARER_SECONDS` after its last use.
    """
    with store.write() as tx:
        name = repository.require_person(tx, "person", person)
        _delete_passes(tx, name, BEARER)
        return _insert_pass(tx, BEARER, name, BEARER_SECONDS)[0]


@retry_on_contention
def issue_further_bearer(store: Store, *, person: str) -> str:
    """Return a further token for scripts that act as a person, for a server beside others. Those of the other servers stay valid."""
    with store.write() as tx:
        return _insert_pass(tx, BEARER, repository.require_person(tx, "person", person), BEARER_SECONDS)[0]


@verb(caller=SERVER_MACHINE, mode=WRITE)
@retry_on_contention
def issue_agent_token(store: Store, *, name: str, scope: str = OWN_SCOPE) -> str:
    """Return a token that authenticates an agent by its name. Its previous token is void at once.

    With the scope `all`, the agent is a leader: it sees every thread, task and mailbox, and may end any thread.
    """
    checks.name("name", name)
    checks.choice("scope", scope, SCOPES)
    with store.write() as tx:
        known = tx.fetch_one(tx.sql.agent_lock, name=name)
        if known is None:
            refuse_lookalike(tx, "name", name)
            tx.execute(tx.sql.agent_open, name=name, now=clock.format_stamp(tx.now()))
            known = tx.fetch_one(tx.sql.agent_lock, name=name)
        if known is None or known.is_person:
            raise InvalidInput(f"{name} is a person", field="name", hint="People sign in: `inbox sign-in` makes a link.")
        _delete_passes(tx, name, AGENT)
        return _insert_pass(tx, AGENT, name, None, scope)[0]


@verb(caller=SERVER_MACHINE, mode=WRITE)
@retry_on_contention
def revoke_agent_token(store: Store, *, name: str) -> bool:
    """Revoke the token of an agent. Return False if it had none."""
    checks.name("name", name)
    with store.write() as tx:
        _require_seen(tx, name)
        return bool(_delete_passes(tx, name, AGENT))


def _delete_passes(tx: Transaction, name: str, *kinds: str) -> list[Pass]:
    """Delete the passes of a name that are of one of these kinds, and return them."""
    return _delete_until_none(tx, lambda: [known for known in tx.fetch_all(tx.sql.passes_of, person=name) if known.kind in kinds])


@verb(caller=PEOPLE, mode=READ)
def list_passes(store: Store, *, person: str | None = None, after: str | None = None, limit: int = 1000) -> PassPage:
    """List the valid passes of all people and agents, or those of one name, in the order of their ids. Tokens are not shown.

    Workspaces have tokens of their own: see `list_workspaces`.
    """
    checks.limit("limit", limit)
    last = "" if after is None else _hash_prefix("after", after) + "g"  # after every hash with this prefix
    with store.read() as tx:
        if person is None:
            found = tx.fetch_all(tx.sql.passes_page, after=last, until="g", limit=limit + 1)
        else:
            found = tx.fetch_all(tx.sql.passes_page_of, person=checks.name("person", person), after=last, limit=limit + 1)
        now = clock.format_stamp(tx.now())
    page, more = found[:limit], len(found) > limit
    return PassPage(tuple(known.listed() for known in page if not _is_expired(known, now)), more, page[-1].pass_id if more else None)


@verb(caller=PEOPLE, mode=WRITE)
@retry_on_contention
def revoke_passes(store: Store, *, pass_id: str | None = None, person: str | None = None, everyone: bool = False) -> tuple[ListedPass, ...]:
    """Revoke one pass by its id, all passes of a person or an agent, or all of everyone. Return those that were revoked.

    Refuses with `NotFound` if there is no such pass or name, and with `InvalidInput` unless exactly one of the three is given.
    """
    if (pass_id is not None) + (person is not None) + everyone != 1:
        raise InvalidInput("name one pass, one person, or all", field="id", hint="Give an ID, --person NAME, or --all.")
    with store.write() as tx:
        if pass_id is not None:
            (chosen,) = _find_by_id(tx, pass_id)
            delete_pass(tx, chosen)
            deleted = [chosen]
        elif person is not None:
            _require_seen(tx, checks.name("person", person))
            deleted = _delete_until_none(tx, lambda: tx.fetch_all(tx.sql.passes_of, person=person))
        else:
            deleted = _delete_until_none(tx, lambda: tx.fetch_all(tx.sql.passes_page, after="", until="g", limit=NO_LIMIT))
    return tuple(known.listed() for known in deleted)


def _delete_until_none(tx: Transaction, find: Callable[[], list[Pass]]) -> list[Pass]:
    """Delete the passes that `find` returns, until it returns none.

    On PostgreSQL, a link may be exchanged for a session at the same time. The session is seen once the link was waited for.
    """
    deleted: list[Pass] = []
    while found := find():
        for known in found:
            delete_pass(tx, known)
        deleted += found
    return deleted


def _find_by_id(tx: Transaction, pass_id: str) -> list[Pass]:
    prefix = _hash_prefix("id", pass_id)
    found = tx.fetch_all(tx.sql.passes_page, after=prefix, until=prefix + "g", limit=MAX_NAMED_PASSES + 1)
    if not found:
        raise NotFound(f"there is no pass {pass_id}", hint="See `inbox pass list`.", id=pass_id)
    if len(found) > 1:
        ids = ", ".join(known.pass_id for known in found[:MAX_NAMED_PASSES]) + (", …" if len(found) > MAX_NAMED_PASSES else "")
        raise InvalidInput(f"{pass_id} is the beginning of several passes", field="id", hint=f"Write more of it: {ids}.")
    return found


def _require_seen(tx: Transaction, name: str) -> None:
    if tx.fetch_one(tx.sql.agent_lock, name=name) is None:
        raise NotFound(f"nobody called {name} has been seen", hint="See `inbox agent list`.", name=name)


def _hash_prefix(field: str, pass_id: str) -> str:
    """Return the part of the hash that an id holds. An id may be shortened."""
    digits = pass_id.removeprefix("pass_")
    if not MIN_ID_DIGITS <= len(digits) <= PASS_ID_DIGITS or digits.strip("0123456789abcdef"):
        hint = f"See `inbox pass list`; write at least {MIN_ID_DIGITS} digits."
        raise InvalidInput(f"{short_repr(pass_id)} is not the id of a pass", field=field, hint=hint)
    return digits


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


def _insert_pass(
    tx: Transaction, kind: str, name: str, seconds: float | None, scope: str = OWN_SCOPE, *, token: str | None = None
) -> tuple[str, str | None]:
    tx.execute(tx.sql.pass_expire, now=clock.format_stamp(tx.now()))
    token = token or tokens.new_token(_PREFIXES[kind])
    expires_at = None if seconds is None else clock.format_stamp(tx.now() + clock.microseconds(seconds))
    issued = Pass(tokens.hash_token(token), kind, name, clock.format_stamp(tx.now()), expires_at, scope=scope)
    tx.execute(tx.sql.pass_insert, **dict(issued.items()))
    return token, expires_at


def insert_question_pass(tx: Transaction, token: str, person: str, entry_id: str, seconds: float) -> None:
    """Store a pass with which a person can answer one question, once. Its scope is the entry of the question."""
    _insert_pass(tx, QUESTION, repository.require_person(tx, "person", person), seconds, entry_id, token=token)


def find_person(tx: Transaction, token: str, kinds: tuple[str, ...] = PERSON_KINDS) -> str | None:
    """Return the person who has a valid token of one of these kinds, or None."""
    known = find_pass(tx, token)
    return known.person if known is not None and known.kind in kinds else None


def find_pass(tx: Transaction, token: str) -> Pass | None:
    """Return the pass of a token, or None if it is unknown, expired, or its name changed between person and agent."""
    known = tx.fetch_one(tx.sql.pass_find, token_hash=tokens.hash_token(token))
    return None if known is None or _is_expired(known, clock.format_stamp(tx.now())) else known


def _is_expired(known: Pass, now: str) -> bool:
    return known.expires_at is not None and known.expires_at <= now


def is_use_due(known: Pass, now: int) -> bool:
    """Return whether the use of a pass has to be recorded: it was not within the last day."""
    return known.last_used_at is None or known.last_used_at <= clock.format_stamp(now - clock.microseconds(USE_SECONDS))


@verb(caller=SERVER_MACHINE, mode=WRITE)
@retry_on_contention
def record_use(store: Store, token_hash: str) -> None:
    """Record that a pass was used, at most once a day. A bearer token expires `BEARER_SECONDS` later."""
    with store.write() as tx:
        now = tx.now()
        instants = {
            "now": now,
            "before": now - clock.microseconds(USE_SECONDS),
            "bearer_expires_at": now + clock.microseconds(BEARER_SECONDS),
        }
        stamps = {name: clock.format_stamp(instant) for name, instant in instants.items()}
        tx.execute(tx.sql.pass_use, token_hash=token_hash, **stamps)
