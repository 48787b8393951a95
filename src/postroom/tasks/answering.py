"""Apply the answers in an agent's output to the tasks of a sheet. `Conductor.answer_sheet` calls it, inside its transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, clock
from postroom.core.errors import InvalidInput, NotFound
from postroom.core.states import TASK
from postroom.tasks import jobs, lookups, repository
from postroom.tasks.a2a.a2a_inbox import check_description, freeze_artifacts
from postroom.tasks.a2a.delegation import COMPLETE, DELEGATE, FAIL, ParsedAnswer, parse_answers
from postroom.tasks.a2a.models import A2ATask, UnappliedAnswer
from postroom.tasks.repository import ACCEPTED, COMPLETED, FAILED
from postroom.tasks.snapshots import task_from_row

if TYPE_CHECKING:
    from postroom.core.records.tasks import JobRow, TaskRow
    from postroom.store.interface import Transaction

MIN_ID_CHARS = 4  # of an id that is shortened


class AnswerOutcome:
    """The tasks that the answers of one sheet ended or gave to others, and the lines that did nothing."""

    def __init__(self, tx: Transaction, job: JobRow, token: str | None) -> None:
        self._tx, self._job, self._token = tx, job, token
        self._rows = {
            row.task_id: row for row in jobs.open_tasks(tx, job.job_id, ACCEPTED) if row.kind == TASK and token in (None, row.lease_token)
        }
        self._answered: dict[str, int] = {}  # the line of the answer to each task
        self.tasks: dict[str, list[A2ATask]] = {COMPLETE: [], FAIL: [], DELEGATE: []}
        self.not_applied: list[UnappliedAnswer] = []

    def apply(self, text: str) -> None:
        """Apply all answers of a text. Delegations come first: they are parts of tasks that the others end."""
        answers = parse_answers(text)
        self.not_applied = [
            UnappliedAnswer(line=one.line, text=one.text, why=one.why) for one in answers.misunderstood + answers.lookalikes
        ]
        for answer in sorted(answers.understood, key=lambda answer: answer.verb != DELEGATE):
            try:
                done = self._delegate(answer) if answer.verb == DELEGATE else self._end_task(answer)
                self.tasks[answer.verb].append(task_from_row(done))
            except _NotApplicable as refused:
                self._leave_out(answer, str(refused))
            except (InvalidInput, NotFound) as refused:  # raised before anything is written. Any other refusal undoes all answers
                self._leave_out(answer, f"{refused}. {refused.hint}".strip())
        self.not_applied.sort(key=lambda one: one.line)

    def _leave_out(self, answer: ParsedAnswer, why: str) -> None:
        text = f"@{answer.verb} {answer.name}: {answer.text.split(chr(10), 1)[0][:200]}"
        self.not_applied.append(UnappliedAnswer(line=answer.line, text=text, why=why))

    def _end_task(self, answer: ParsedAnswer) -> TaskRow:
        row = self._find_task(answer.name)
        if row.task_id in self._answered:
            raise _NotApplicable(f"line {self._answered[row.task_id]} answers this task already")
        if answer.verb == COMPLETE:
            ended = repository.finish_task(self._tx, row, COMPLETED, artifacts_json=_artifacts_of(answer.text))
        else:
            reason = checks.reason("reason", answer.text)
            ended = repository.finish_task(self._tx, row, FAILED, reason=reason, code="failed")
        self._answered[row.task_id] = answer.line
        return ended

    def _find_task(self, name: str) -> TaskRow:
        """Return the task of an id or of the beginning of one. A task whose lease ran out may still be answered until it is replaced."""
        wanted = name.casefold()
        found = [
            row for task_id, row in self._rows.items() if task_id == wanted or (len(wanted) >= MIN_ID_CHARS and task_id.startswith(wanted))
        ]
        if len(found) > 1:
            raise _NotApplicable("several tasks of the sheet begin with this id")
        if found:
            return found[0]
        late = self._tx.fetch_one(self._tx.sql.task_find, task_id=wanted)
        if late is None or not late.is_open or self._token is None or late.lease_token != self._token:
            raise _NotApplicable("no open task of this sheet has this id")
        return late

    def _delegate(self, answer: ParsedAnswer) -> TaskRow:
        tx, job = self._tx, self._job
        if answer.name == job.agent:
            raise _NotApplicable(f"{job.agent} cannot give a task to itself")
        jobs.find_card(tx, answer.name)
        now = clock.format_stamp(tx.now())
        names: dict[str, Any] = {"source_job_id": job.job_id, "source_agent": job.agent, "target_agent": answer.name}
        task = A2ATask(task_id=str(uuid4()), description=check_description(answer.text), created_at=now, **names)
        parent = lookups.find_parent(tx, task, None)
        family: dict[str, Any] = {}
        if parent is not None:
            family = {"depth": lookups.check_depth(parent.depth + 1), "parent": parent.task_id, "traceparent": parent.traceparent}
        return repository.store_new_task(tx, repository.row_from_task(task.model_copy(update=family)))


class _NotApplicable(Exception):
    """The reason why one answer does nothing."""


def _artifacts_of(text: str) -> str:
    """Return an answer as artifacts: the JSON object that it is, also in a fence, or else its text."""
    lines = text.strip().split("\n")
    bare = "\n".join(lines[1:-1]) if len(lines) > 2 and lines[0].startswith("```") and lines[-1].strip() == "```" else text
    artifacts: Any = None
    if bare.lstrip().startswith("{"):
        try:
            artifacts = jsontext.loads(bare)
        except ValueError:
            artifacts = None
    return jsontext.dumps(freeze_artifacts(artifacts if isinstance(artifacts, dict) else {"text": text}))
