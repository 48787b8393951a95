"""Ask a person a question and wait for the answer. A question defines what happens if there is no answer by its deadline."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, clock, limits
from postroom.core.errors import InvalidInput, StoreBusy
from postroom.core.records.people import DEFAULT, ESCALATE, ON_SILENCE, OPEN, QUESTION, WAIT, Answer, Entry, Workspace
from postroom.core.verbs import OWN_ENTRIES, OWN_NAME, STEPS, verb
from postroom.core.verbs import WAIT as WAIT_MODE
from postroom.people import documents, repository
from postroom.people.access import workspaces
from postroom.people.questions import decisions, due_questions
from postroom.store.agents import note_seen
from postroom.store.retries import retry_on_contention
from postroom.store.wait_loop import wait_until

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from postroom.people.entries import Docs
    from postroom.store.interface import Store, Transaction


@verb(caller="agent", access=OWN_NAME, mode=STEPS)
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
    title: str | None = None,
    entry_id: str | None = None,
    dangerous: Sequence[str] = (),
    proposal: dict[str, Any] | None = None,
) -> Entry:
    """Ask a person a question, as an agent or as a workspace's agent. Return its entry.

    With `entry_id` the question is added to that entry of the same agent, and shown in its row. Choices that are `dangerous` need a
    confirmation. A `proposal`, a text or an action with its arguments, is approved, edited or rejected: the answer has the `decision`.

    After `deadline_seconds` without an answer, `on_silence` applies: `wait` keeps it open, `default` answers it with `default`,
    `refuse` counts as a no, and `escalate` puts it to the person `escalate_to`.
    """
    from postroom.people import entries_mirror

    paths = documents.check_doc_paths(docs)
    workspace = _find_workspace(store, agent, workspace_id)
    if paths and workspace is None:
        raise InvalidInput("only a workspace has documents", field="docs", hint="Ask as a workspace's agent, or leave them out.")
    described = documents.describe_files(workspace.path, paths) if workspace is not None else documents.Described()
    silence: dict[str, Any] = {"deadline_seconds": deadline_seconds, "on_silence": on_silence, "default": default}
    silence |= {"escalate_to": escalate_to, "title": title, "entry_id": entry_id, "dangerous": dangerous, "proposal": proposal}
    content: dict[str, Any] = {"question": question, "agent": agent or "", "described": described, "to": to, "choices": choices}
    entry = ask_described(store, workspace, **content, **silence)
    entries_mirror.update_mirror(store)
    return entry


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
    title: str | None = None,
    entry_id: str | None = None,
    dangerous: Sequence[str] = (),
    proposal: dict[str, Any] | None = None,
) -> Entry:
    """Ask a question whose documents are described already. The server calls this, because it reads files in a thread."""
    _check_question(question)
    checked_choices = _check_choices(choices)
    _check_silence(on_silence, deadline_seconds, checked_choices, default, to, escalate_to)
    due_questions.sync(store)
    choices_json = jsontext.dumps(checked_choices)
    terms = {"on_silence": on_silence, "default_answer": default, "escalate_to": escalate_to, "choices_json": choices_json}
    terms["terms_json"] = jsontext.dumps(decisions.check_terms(checked_choices, dangerous, proposal))
    asker = agent if workspace is None else workspace.agent
    described = described or documents.Described()
    content: dict[str, Any] = {"kind": QUESTION, "workspace": workspace, "agent": agent, "label": agent, "comments": question}
    content |= {"docs": described.docs, "texts": described.texts, "title": repository.check_title(title)}
    return _store_question(store, asker, content, entry_id, to, deadline_seconds, terms)


@retry_on_contention
def _store_question(
    store: Store, asker: str, content: dict[str, Any], entry_id: str | None, to: str, seconds: float | None, terms: dict[str, Any]
) -> Entry:
    """Store a question in an entry of its own, or as a part of the asker's entry `entry_id`. Return the entry or the part."""
    with store.write() as tx:
        repository.require_person(tx, "to", to)
        if terms["escalate_to"] is not None:
            repository.require_person(tx, "escalate_to", terms["escalate_to"])
        due = None if seconds is None else tx.now() + int(seconds * clock.MICROSECONDS_PER_SECOND)
        row = {"addressee": to, "deadline": None if due is None else clock.format_stamp(due), **terms}
        row["due_at"] = None if terms["on_silence"] == WAIT else due
        note_seen(tx, "agent", asker)
        if entry_id is None:
            return repository.insert_entry(tx, ask=row, **content)
        return repository.add_part(tx, repository.lock_own_matter(tx, entry_id, asker), {"ask": row, **content})


def close_question(
    tx: Transaction,
    entry: Entry,
    state: str,
    *,
    by: str | None,
    door: str | None,
    at: str,
    answer: str | None = None,
    answer_id: str | None = None,
    decision: dict[str, Any] | None = None,
) -> Entry:
    """Write how an open question ended, append the event, and return the entry. Raises `StoreBusy` if it is not open any more."""
    closed_meanwhile = StoreBusy(f"{entry.id} was answered while it was being written", hint="Try again.")
    outcome = {
        "state": state,
        "answer": answer,
        "answered_by": by,
        "answered_door": door,
        "answered_at": at,
        "answer_id": answer_id,
        "decision_json": None if decision is None else jsontext.dumps(decision),
    }
    tx.execute_exactly_one(closed_meanwhile, tx.sql.ask_answer, entry_id=entry.id, **outcome)
    tx.execute(tx.sql.entry_close, id=entry.id)
    tx.execute(tx.sql.entry_settle, id=entry.matter_id)
    repository.append_entry_event(tx, state, entry.id, source=by or "", at=at, **repository.event_facts(entry))
    assert entry.ask is not None
    return entry.replace(is_open=0, ask=entry.ask.replace(due_at=None, **outcome))


@verb(caller="agent", access=OWN_ENTRIES, mode=WAIT_MODE)
def wait_answer(store: Store, entry_id: str, *, timeout_seconds: float = 0, agent: str | None = None) -> Answer:
    """Wait until a question is answered or its deadline decides it, for at most `timeout_seconds` (0: without limit).

    Returns the answer, with state `open` after a timeout. An answer that is returned here does not come with `read_messages` again.
    """
    checks.seconds("timeout_seconds", timeout_seconds, allow_zero=True)
    checks.name("entry", entry_id)
    deadline = _Deadline(store)

    def find_final_answer() -> Answer | None:
        answer = answer_of(store, entry_id, agent=agent)
        deadline.at = clock.parse_stamp(answer.deadline) if answer.deadline is not None and answer.state == OPEN else None
        return None if answer.state == OPEN else answer

    final = wait_until(store, find_final_answer, timeout_seconds, topics=(repository.entry_topic(entry_id),), periodic=deadline)
    return answer_of(store, entry_id, agent=agent) if final is None else mark_collected(store, entry_id, final)


@verb(caller="agent", access=OWN_ENTRIES, mode=STEPS)
def answer_of(store: Store, entry_id: str, *, agent: str | None = None) -> Answer:
    """Return the current answer of a question. With `agent`, refuses with `NotFound` if the question is another agent's."""
    due_questions.sync(store)
    with store.read() as tx:
        return current_answer(tx, entry_id, agent=agent)


def current_answer(tx: Transaction, entry_id: str, *, agent: str | None = None) -> Answer:
    """Return the current answer of a question. The transaction's part of `answer_of`."""
    entry = repository.get_entry(tx, entry_id)
    if agent is not None and entry.agent != agent:
        raise repository.entry_not_found(entry_id)
    if entry.ask is None:
        raise InvalidInput(f"{entry_id} asks nothing", field="entry", hint="Only a question has an answer.")
    return Answer.from_entry(entry)


@retry_on_contention
def mark_collected(store: Store, entry_id: str, answer: Answer) -> Answer:
    """Record that the asking agent has received the answer. Return the answer."""
    with store.write() as tx:
        entry = repository.lock_entry(tx, entry_id)
        if entry.ask is not None and entry.ask.collected_at is None:
            write_collected(tx, entry)
    return answer


def write_collected(tx: Transaction, entry: Entry) -> None:
    """Record in a locked entry that the asking agent received the answer, so that it does not come again."""
    tx.execute(tx.sql.ask_collect, entry_id=entry.id, collected_at=clock.format_stamp(tx.now()), collected_door=tx.door)
    repository.append_entry_event(tx, "collected", entry.id, source=entry.agent, **repository.event_facts(entry))


class _Deadline:
    """Wakes a waiter at the deadline of its question. No event is written at that moment, so no notification comes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.at: int | None = None

    def seconds_until_due(self) -> float | None:
        if self.at is None:
            return None
        with self._store.read() as tx:
            return max((self.at - tx.now()) / clock.MICROSECONDS_PER_SECOND, 0.001)

    def run(self) -> None:
        pass


def parse_choices(payload_json: str) -> list[str]:
    """Return the choices in the payload of a thread's question, or none if they are not valid."""
    try:
        return _check_choices(jsontext.loads(payload_json).get("choices", ()))
    except (InvalidInput, ValueError, AttributeError, TypeError):
        return []  # a question without buttons is better than no question


def parse_terms(payload_json: str, choices: Sequence[str]) -> dict[str, Any]:
    """Return the terms in the payload of a thread's question: those of its choices that are dangerous."""
    try:
        return decisions.check_terms(choices, jsontext.loads(payload_json).get("dangerous", ()), None)
    except (InvalidInput, ValueError, AttributeError, TypeError):
        return {}  # as above


def _check_question(question: str) -> None:
    repository.check_nonempty_text("question", question)
    checks.text("question", question, max_bytes=limits.MAX_QUESTION_BYTES, hint="Ask briefly; push the rest.")


def _check_choices(choices: Sequence[str]) -> list[str]:
    if isinstance(choices, str) or not isinstance(choices, list | tuple):
        raise InvalidInput("choices must be a list", field="choices")
    checked = [checks.name("choices", choice, hint="Each choice is a short text.") for choice in choices]
    if len(set(checked)) != len(checked):
        raise InvalidInput(
            f"there must be 2 to {limits.MAX_CHOICES} different choices, and one is given twice", field="choices", hint="Leave one out."
        )
    if checked and not 2 <= len(checked) <= limits.MAX_CHOICES:
        raise InvalidInput(
            f"there must be 2 to {limits.MAX_CHOICES} choices, not {len(checked)}", field="choices", hint="Or none, for any answer."
        )
    return checked


def _check_silence(
    on_silence: str, seconds: float | None, choices: list[str], default: str | None, to: str, escalate_to: str | None
) -> None:
    checks.choice("on_silence", on_silence, ON_SILENCE)
    if seconds is not None:
        checks.seconds("deadline_seconds", seconds)
    elif on_silence != WAIT:
        raise InvalidInput(
            f"{on_silence} needs a deadline", field="deadline_seconds", hint="Give deadline-seconds: how long to wait for an answer."
        )
    if (default is not None) != (on_silence == DEFAULT):
        raise InvalidInput("a default answer belongs to on_silence 'default'", field="default", hint="Give both, or neither.")
    if (escalate_to is not None) != (on_silence == ESCALATE):
        raise InvalidInput("escalate_to belongs to on_silence 'escalate'", field="escalate_to", hint="Give both, or neither.")
    if default is not None:
        repository.check_nonempty_text("default", default)
        if choices and default not in choices:
            raise InvalidInput("the default is not one of the choices", field="default", hint=f"Choose one of: {', '.join(choices)}.")
    if escalate_to is not None and escalate_to == to:
        raise InvalidInput("a question cannot be escalated to the person who was silent", field="escalate_to", hint="Name another.")


def _find_workspace(store: Store, agent: str | None, workspace_id: str | None) -> Workspace | None:
    """Return the named workspace, or that of the agent, if it has one."""
    if (agent is None) == (workspace_id is None):
        raise InvalidInput("a question needs an agent or a workspace", field="agent", hint="Give one of the two.")
    with store.read() as tx:
        if workspace_id is not None:
            return workspaces.get_workspace(tx, workspace_id)
        return tx.fetch_one(tx.sql.workspace_of_agent, agent=checks.name("agent", agent))
