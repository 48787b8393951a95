"""Links that open one question: show it, and answer it once. A link holds a pass that is bound to this question and to one person."""

from __future__ import annotations

from postroom.core.errors import InvalidState, NotFound
from postroom.core.records.people import OPEN, Entry, ReplyResult
from postroom.core.verbs import READ, SERVER_MACHINE, WRITE, verb
from postroom.people import replying, repository
from postroom.people.access import passes, tokens
from postroom.people.questions import due_questions
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.store.interface import Store, Transaction

TOKEN_DIGITS = 40  # 160 bits. A token is a part of the local part of an e-mail address, which has at most 64 characters
TOKEN_PREFIX = "prq_"  # noqa: S105 - no secret


def derive_token(link_key: str, alert_id: str) -> str:
    """Return the token of an alert's link. It is derived, so that a message that is sent again has the same link."""
    import hmac

    return TOKEN_PREFIX + hmac.new(link_key.encode(), alert_id.encode(), "sha256").hexdigest()[:TOKEN_DIGITS]


@verb(caller=SERVER_MACHINE, mode=READ)
def open_question_link(store: Store, token: str) -> Entry:
    """Return the entry whose question a link opens. It changes nothing. Refuses with `NotFound` a link that is void."""
    with store.read() as tx:
        return find_question(tx, token)[1]


@verb(caller=SERVER_MACHINE, mode=WRITE)
def answer_question_link(
    store: Store, token: str, *, body: str = "", decision: dict[str, Any] | None = None, comment: bool = False
) -> ReplyResult:
    """Answer the question of a link, as the person to whom the link was sent. The link is void then.

    The pass, the state of the question and the answer are checked and written in one transaction. Refuses with `NotFound` a link that was
    used, revoked or is too old, and with `InvalidState` if the question is not open any more. `comment` is that of `reply`.
    """
    repository.check_nonempty_text("body", body) if decision is None else repository.check_text("body", body)
    due_questions.sync(store)
    return _write_answer(store, token, body, decision, comment)


@retry_on_contention
def _write_answer(store: Store, token: str, body: str, decision: dict[str, Any] | None, comment: bool) -> ReplyResult:
    with store.write() as tx:
        person, entry = find_question(tx, token)
        entry = repository.lock_entry(tx, entry.id)
        if entry.ask is None or entry.ask.state != OPEN:
            raise InvalidState("this question is not open any more", hint="Nothing has to be done.", entry_id=entry.id)
        tx.execute_exactly_one(_void_link(), tx.sql.pass_delete, token_hash=tokens.hash_token(token), kind=passes.QUESTION)
        return replying.write_reply(tx, entry.id, person, body, decision=decision, comment=comment)


def find_question(tx: Transaction, token: str) -> tuple[str, Entry]:
    """Return the person and the entry of a link. Refuses with `NotFound` a link that is void."""
    known = passes.find_pass(tx, token) if token.startswith(TOKEN_PREFIX) else None
    entry = None if known is None or known.kind != passes.QUESTION else tx.fetch_one(tx.sql.entry_find, id=known.scope)
    if known is None or entry is None or entry.ask is None:
        raise _void_link()
    return known.person, entry


def _void_link() -> NotFound:
    return NotFound("this link was used already, was revoked, or is too old", hint="Open your inbox, or use the latest message.")
