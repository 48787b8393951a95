"""Asking: a question to a person that may wait for its answer, and that says what silence means."""

from __future__ import annotations

from postroom.core import checks, clock, jsontext
from postroom.core.entries import DEFAULT, ESCALATE, ON_SILENCE, OPEN, QUESTION, WAIT, Answer, Entry, Workspace
from postroom.core.errors import InvalidInput, StoreBusy
from postroom.core.verbs import verb
from postroom.people import documents, ledger, workspaces
from postroom.store.attempts import retried
from postroom.store.waking import until

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from postroom.people.entries import Docs
    from postroom.store.port import Store, Transaction

QUESTION_BYTES = 16 * 1024
MOST_CHOICES = 20


@verb
def ask(
    store: Store,
    *,
    question: str,
    agent: str | None = None,
    workspace_id: str | None = None,
    to: str = "user",
    choices: Sequence[str] = (),
    deadline_seconds: float | None = None,
    on_silence: str = WAIT,
    default: str | None = None,
    escalate_to: str | None = None,
    docs: Docs = (),
) -> Entry:
    """Ask a person something, as an agent or as a workspace's agent.

    After `deadline_seconds` without an answer, `on_silence` says what holds: `wait` on, take the `default`, take it as refused, or
    `escalate` it to another person.
    """
    from postroom.people import twin

    paths = documents.named(docs)
    workspace = _workspace(store, agent, workspace_id)
    if paths and workspace is None:
        raise InvalidInput("only a workspace has documents", field="docs", hint="Ask as a workspace's agent, or leave them out.")
    described = documents.described(workspace.path, paths) if workspace is not None else documents.Described()
    silence: dict[str, Any] = {"deadline_seconds": deadline_seconds, "on_silence": on_silence, "default": default}
    said = {"question": question, "agent": agent or "", "to": to, "choices": choices, "escalate_to": escalate_to, **silence}
    asked = ask_described(store, workspace, described=described, **said)
    twin.follow(store)
    return asked


def ask_described(
    store: Store,
    workspace: Workspace | None,
    *,
    question: str,
    agent: str = "",
    described: documents.Described | None = None,
    to: str = "user",
    choices: Sequence[str] = (),
    deadline_seconds: float | None = None,
    on_silence: str = WAIT,
    default: str | None = None,
    escalate_to: str | None = None,
) -> Entry:
    """The same, with its documents described already."""
    from postroom.people import folding

    said = _question(question)
    offered = _choices(choices)
    _check_silence(on_silence, deadline_seconds, offered, default, to, escalate_to)
    folding.fold(store)
    facts = {"on_silence": on_silence, "default_answer": default, "escalate_to": escalate_to, "choices_json": jsontext.dumps(offered)}
    return _ask(store, agent, workspace, said, described or documents.Described(), to, deadline_seconds, facts)


@retried
def _ask(
    store: Store,
    agent: str,
    workspace: Workspace | None,
    question: str,
    described: documents.Described,
    to: str,
    seconds: float | None,
    facts: dict[str, Any],
) -> Entry:
    with store.write() as tx:
        ledger.human(tx, "to", to)
        if facts["escalate_to"] is not None:
            ledger.human(tx, "escalate_to", facts["escalate_to"])
        due = None if seconds is None else tx.now() + int(seconds * clock.SECOND)
        asked = {"addressee": to, "deadline": None if due is None else clock.stamp(due), **facts}
        asked["due_at"] = None if facts["on_silence"] == WAIT else due
        tx.run(tx.sql.agent_seen, name=agent if workspace is None else workspace.agent, now=clock.stamp(tx.now()))
        shown: dict[str, Any] = {"docs": described.docs, "texts": described.texts, "comments": question}
        return ledger.insert(tx, kind=QUESTION, workspace=workspace, agent=agent, label=agent, ask=asked, **shown)


def settle(tx: Transaction, entry: Entry, state: str, *, by: str | None, door: str | None, at: str, answer: str | None = None) -> Entry:
    """Write how a question ended, guarded by its being open, and say so."""
    gone = StoreBusy(f"{entry.id} was answered while it was being written", hint="Try again.")
    said = {"state": state, "answer": answer, "answered_by": by, "answered_door": door, "answered_at": at}
    tx.must(gone, tx.sql.ask_answer, entry_id=entry.id, **said)
    tx.run(tx.sql.entry_close, id=entry.id)
    ledger.announce(tx, state, entry.id, source=by or "", at=at, **ledger.facts(entry))
    assert entry.ask is not None
    return entry.replace(is_open=0, ask=entry.ask.replace(due_at=None, **said))


@verb
def wait_answer(store: Store, entry_id: str, *, timeout_seconds: float = 0, agent: str | None = None) -> Answer:
    """Sleep until a question is answered, or silence has answered it, at most `timeout_seconds` (0: for ever).

    Whoever is handed the answer here does not find it among its messages again.
    """
    checks.seconds("timeout_seconds", timeout_seconds, zero=True)
    checks.name("entry", entry_id)
    deadline = _Deadline(store)

    def look() -> Answer | None:
        answer = answer_of(store, entry_id, agent=agent)
        deadline.at = clock.instant(answer.deadline) if answer.deadline is not None and answer.state == OPEN else None
        return None if answer.state == OPEN else answer

    found = until(store, look, timeout_seconds, topics=(ledger.of_entry(entry_id),), chore=deadline)
    return answer_of(store, entry_id, agent=agent) if found is None else collect(store, entry_id, found)


@verb
def answer_of(store: Store, entry_id: str, *, agent: str | None = None) -> Answer:
    """How a question stands. Of another's question nothing is said."""
    from postroom.people import folding

    folding.fold(store)
    with store.read() as tx:
        return standing(tx, entry_id, agent=agent)


def standing(tx: Transaction, entry_id: str, *, agent: str | None = None) -> Answer:
    entry = ledger.found(tx, entry_id)
    if agent is not None and entry.agent != agent:
        raise ledger.unknown(entry_id)
    if entry.ask is None:
        raise InvalidInput(f"{entry_id} asks nothing", field="entry", hint="Only a question has an answer.")
    return Answer.of(entry.ask)


@retried
def collect(store: Store, entry_id: str, answer: Answer) -> Answer:
    """Note that an answer has reached whoever asked."""
    with store.write() as tx:
        entry = ledger.locked(tx, entry_id)
        if entry.ask is not None and entry.ask.collected_at is None:
            hand_over(tx, entry)
    return answer


def hand_over(tx: Transaction, entry: Entry) -> None:
    """The answer of an entry that is ours to change reaches whoever asked, and will not come again."""
    tx.run(tx.sql.ask_collect, entry_id=entry.id, collected_at=clock.stamp(tx.now()), collected_door=tx.door)
    ledger.announce(tx, "collected", entry.id, source=entry.agent, **ledger.facts(entry))


class _Deadline:
    """Wakes a waiter when the time of its question is over: nobody rings a bell for that."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.at: int | None = None

    def due(self) -> float | None:
        if self.at is None:
            return None
        with self._store.read() as tx:
            return max((self.at - tx.now()) / clock.SECOND, 0.001)

    def perform(self) -> None:
        pass


def offered(payload_json: str) -> list[str]:
    """The choices that the payload of a thread's question offers, if they make sense."""
    try:
        return _choices(jsontext.loads(payload_json).get("choices", ()))
    except (InvalidInput, ValueError, AttributeError, TypeError):
        return []  # a page without buttons is better than no question


def _question(question: str) -> str:
    said = ledger.said("question", question)
    if len(said.encode()) > QUESTION_BYTES:
        raise InvalidInput(f"question is larger than {QUESTION_BYTES // 1024} KiB", field="question", hint="Ask briefly; push the rest.")
    return said


def _choices(choices: Sequence[str]) -> list[str]:
    if isinstance(choices, str) or not isinstance(choices, list | tuple):
        raise InvalidInput("choices must be a list", field="choices")
    given = [checks.name("choices", choice, hint="Each choice is a short text.") for choice in choices]
    if len(set(given)) != len(given):
        raise InvalidInput(
            f"there must be 2 to {MOST_CHOICES} different choices, and one is given twice", field="choices", hint="Leave one out."
        )
    if given and not 2 <= len(given) <= MOST_CHOICES:
        raise InvalidInput(f"there must be 2 to {MOST_CHOICES} choices, not {len(given)}", field="choices", hint="Or none, for any answer.")
    return given


def _check_silence(
    on_silence: str, seconds: float | None, choices: list[str], default: str | None, to: str, escalate_to: str | None
) -> None:
    checks.choice("on_silence", on_silence, ON_SILENCE)
    if seconds is not None:
        checks.seconds("deadline_seconds", seconds)
    elif on_silence != WAIT:
        raise InvalidInput(f"{on_silence} needs a deadline", field="deadline_seconds", hint="Say after how long silence counts.")
    if (default is not None) != (on_silence == DEFAULT):
        raise InvalidInput("a default belongs to on_silence default, and it to a default", field="default", hint="Give both, or neither.")
    if (escalate_to is not None) != (on_silence == ESCALATE):
        raise InvalidInput(
            "escalate_to belongs to on_silence escalate, and it to a name", field="escalate_to", hint="Give both, or neither."
        )
    if default is not None:
        ledger.said("default", default)
        if choices and default not in choices:
            raise InvalidInput("the default is not one of the choices", field="default", hint=f"Choose one of: {', '.join(choices)}.")
    if escalate_to is not None and escalate_to == to:
        raise InvalidInput("a question cannot be escalated to the person who was silent", field="escalate_to", hint="Name another.")


def _workspace(store: Store, agent: str | None, workspace_id: str | None) -> Workspace | None:
    """The workspace that asks: as named, or the one of the agent, if it has one."""
    if (agent is None) == (workspace_id is None):
        raise InvalidInput("say who asks: an agent, or a workspace", field="agent", hint="Give one of the two.")
    with store.read() as tx:
        if workspace_id is not None:
            return workspaces.found(tx, workspace_id)
        row = tx.one(tx.sql.workspace_of_agent, agent=checks.name("agent", agent))
    return None if row is None else Workspace(*row)
