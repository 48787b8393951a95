"""Questions in threads: which one an answer settles, and which one an agent waits for. `threads` and `waiting` call it.

A question is a message of kind `question`, and its id is its message id. It is open until a message settles it, its thread ends, or the
lease of its asker is revoked.
"""

from __future__ import annotations

from postroom.core import checks
from postroom.core.errors import AmbiguousQuestion, Forbidden, InvalidInput, NotFound, QuestionClosed
from postroom.core.text import shell_quote, short_repr
from postroom.store.agents import is_person

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.work import Message
    from postroom.store.interface import Transaction

MAX_LISTED_QUESTIONS = 20
MAX_LISTED_CHARS = 200


def find_question_to_settle(tx: Transaction, thread_id: str, *, sender: str, to: str | None, question_id: str | None) -> Message | None:
    """Return the open question that an answer of `sender` settles, or None if the answer is a remark.

    Without `question_id`, it is the only open question that `sender` may settle, and with `to`, the only one that `to` asked. A person
    may settle every question, an agent those that were put to it. Refuses with `AmbiguousQuestion` if there are several.
    """
    settled_by_person = is_person(tx, sender)
    if question_id is not None:
        return _require_settleable(get_question(tx, thread_id, question_id), sender, to, settled_by_person)
    found = tx.fetch_all(
        tx.sql.questions_open_to,
        thread_id=thread_id,
        sender=sender,
        asker=to or "",
        is_person=int(settled_by_person),
        limit=MAX_LISTED_QUESTIONS,
    )
    if len(found) > 1:
        raise _ambiguous_question_error(thread_id, found)
    return next(iter(found), None)


def get_question(tx: Transaction, thread_id: str, question_id: str) -> Message:
    """Return a question of a thread. Refuses with `NotFound`."""
    question = tx.fetch_one(tx.sql.message_find, message_id=checks.name("question", question_id))
    if question is None or question.thread_id != thread_id or question.kind != "question":
        hint = f"See the questions with `inbox show --thread {shell_quote(thread_id)}`."
        raise NotFound(f"there is no question {short_repr(question_id)} in {thread_id}", hint=hint, question_id=question_id)
    return question


def find_waited_question(tx: Transaction, thread_id: str, *, agent: str | None, after: int) -> Message | None:
    """Return the question whose answer a wait after an event is for, or None if the wait is for any reply.

    It is the latest question of the agent up to that event, or else a later one, that was open at that event. Without an agent, the
    questions of all agents count.
    """
    for first, last in ((0, after), (after + 1, checks.AFTER_ALL_IDS)):
        bounds = {"first": first, "last": last, "after": after}
        question = tx.fetch_one(tx.sql.question_unanswered_at, thread_id=thread_id, agent=agent or "", **bounds)
        if question is not None:
            return question
    return None


def find_reply(
    tx: Transaction, thread_id: str, *, agent: str | None, after: int, kinds_json: str, question: Message | None
) -> Message | None:
    """Return the first message after an event that ends the wait of an agent.

    With a question, that is its answer, a control message to its asker, or another message of the wanted kinds that is no answer.
    Without one, the answers to the questions of other agents do not count.
    """
    waiter, question_id = (agent or "", "") if question is None else (question.from_agent, question.message_id)
    return tx.fetch_one(tx.sql.message_after, thread_id=thread_id, after=after, kinds=kinds_json, agent=waiter, question=question_id)


def _require_settleable(question: Message, sender: str, to: str | None, settled_by_person: bool) -> Message:
    """Return a named question. Refuses if it is not open, if another agent asked it, or if the sender may not settle it."""
    question_id, asker = question.message_id, question.from_agent
    if to is not None and to != asker:
        raise InvalidInput(f"{question_id} was asked by {asker}, not by {short_repr(to)}", field="to", hint="Leave out the receiver.")
    if sender == asker or not (settled_by_person or sender == question.to_agent):
        hint = "Leave out the question: then your message is a remark, which settles nothing."
        raise Forbidden(f"{question_id} was put to {question.to_agent}, and {sender} may not settle it", hint=hint, question_id=question_id)
    if not question.is_open:
        hint = "Leave out the question to add a remark."
        raise QuestionClosed(f"{question_id} is not open any more", hint=hint, question_id=question_id)
    return question


def _ambiguous_question_error(thread_id: str, found: list[Message]) -> AmbiguousQuestion:
    listed = [
        {"question_id": question.message_id, "from": question.from_agent, "text": (question.summary or question.body)[:MAX_LISTED_CHARS]}
        for question in found
    ]
    names = "; ".join(f"{each['question_id']} ({each['from']}: {short_repr(each['text'])})" for each in listed)
    return AmbiguousQuestion(
        f"{thread_id} has {len(found)} open questions that this could answer: {names}",
        hint="Name the one that you answer: --question ID.",
        thread_id=thread_id,
        questions=listed,
    )
