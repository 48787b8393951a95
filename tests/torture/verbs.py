"""The verbs of every room as an actor calls them: each call and its answer go into the history."""

from __future__ import annotations

from collections.abc import Sequence

from postroom import mail, people, queues, work
from postroom.core.errors import CursorExpired
from postroom.core.records.mail import AckResult, Delivery, EnqueueAck, ExtendResult, NackResult
from postroom.core.records.people import Answer, Entry, EntryPage
from postroom.core.records.queues import QueueEvent
from postroom.core.records.work import Claim, PostedMessage, WatchResult
from postroom.queues import Queue
from postroom.store.interface import Store
from postroom.tasks import Conductor
from postroom.tasks.a2a.models import A2ATask, Accepted, Job, Sheet
from tests.torture.history import Facts, Recorder

LEADER, BUILDER, USER, ATLAS = "leader", "builder", "user", "atlas"
INFLIGHT_SECONDS = 0.8


def _posted(posted: PostedMessage) -> Facts:
    return {"thread": posted.thread.thread_id, "message": posted.message.message_id, "event": posted.message.event_id}


def _claimed(claim: Claim | None) -> Facts:
    return {} if claim is None else {"thread": claim.thread.thread_id, "token": claim.lease.lease_token}


def _changed(result: AckResult | NackResult) -> Facts:
    return {"changed": result.changed}


def _entry(entry: Entry) -> Facts:
    return {"entry": entry.id}


def _ids(events: Sequence[QueueEvent]) -> Facts:
    return {"ids": [event.id for event in events]}


def _read_place(refusal: CursorExpired) -> int:
    place = refusal.facts["next_event_id"]
    assert isinstance(place, int)
    return place


class ThreadVerbs:
    """Threads, as the leader who sends them and the builder who works on them."""

    def __init__(self, store: Store, recorder: Recorder) -> None:
        self.store, self.attempt, self._recorder = store, recorder.attempt, recorder

    def send(self, text: str, key: str) -> PostedMessage | None:
        send = lambda: work.send(self.store, sender=LEADER, to=BUILDER, subject="Build", body=text, key=key)  # noqa: E731
        return self.attempt("work.send", send, _posted, key=key, body=text)

    def take(self, lease: float, wait_seconds: float = 0) -> Claim | None:
        def take() -> Claim | None:
            if not wait_seconds:
                return work.take(self.store, agent=BUILDER, lease_seconds=lease)
            return work.wait_take(self.store, agent=BUILDER, lease_seconds=lease, timeout_seconds=wait_seconds)

        return self.attempt("work.take", take, _claimed, lease=lease)

    def claim(self, thread: str, lease: float) -> Claim | None:
        claim = lambda: work.claim(self.store, thread, agent=BUILDER, lease_seconds=lease)  # noqa: E731
        return self.attempt("work.claim", claim, _claimed, thread=thread, lease=lease)

    def renew(self, thread: str, token: str) -> None:
        renew = lambda: work.renew(self.store, thread, agent=BUILDER, lease_token=token)  # noqa: E731
        self.attempt("work.renew", renew, thread=thread, token=token)

    def update(self, thread: str, token: str, text: str) -> None:
        update = lambda: work.update(self.store, thread, agent=BUILDER, summary="On it", body=text, lease_token=token)  # noqa: E731
        self.attempt("work.update", update, _posted, thread=thread, token=token, body=text)

    def release(self, thread: str, token: str) -> None:
        release = lambda: work.release(self.store, thread, agent=BUILDER, lease_token=token)  # noqa: E731
        self.attempt("work.release", release, thread=thread, token=token)

    def done(self, thread: str, token: str, text: str) -> None:
        done = lambda: work.done(self.store, thread, agent=BUILDER, body=text, lease_token=token)  # noqa: E731
        self.attempt("work.done", done, _posted, thread=thread, token=token, body=text)

    def watch(self, cursor: int, watcher: str, seconds: float) -> WatchResult | None:
        watch = lambda: work.watch(self.store, agent=LEADER, after_event=cursor, timeout_seconds=seconds)  # noqa: E731
        told = lambda result: {"next": result.next_event_id, "events": [event.event_id for event in result.events]}  # noqa: E731
        return self.attempt("work.watch", watch, told, cursor=cursor, watcher=watcher)

    def follow(self, cursor: int, watcher: str, seconds: float) -> tuple[int, bool]:
        """Watch once. Return the cursor from which to go on, and whether something was told. An expired cursor goes on where it is told."""
        result = self.watch(cursor, watcher, seconds)
        if result is not None:
            return result.next_event_id, result.woke
        refusal = self._recorder.last_refusal
        return (_read_place(refusal), True) if isinstance(refusal, CursorExpired) else (cursor, False)


class MailVerbs:
    """A mailbox, as one who sends to it and one who receives."""

    def __init__(self, store: Store, recorder: Recorder) -> None:
        self.store, self.attempt = store, recorder.attempt

    def enqueue(self, message: str, sender: str, box: str, text: str) -> EnqueueAck | None:
        draft = {"msg_id": message, "from": sender, "to": box, "payload": text}
        facts: Facts = {"message": message, "sender": sender, "box": box, "payload": text}
        return self.attempt("mail.enqueue", lambda: mail.enqueue(self.store, draft), lambda ack: {"queued": ack.queued}, **facts)

    def dequeue(self, box: str, wait_seconds: float = 0) -> Delivery | None:
        def dequeue() -> Delivery | None:
            return mail.wait(self.store, box, timeout_seconds=wait_seconds) if wait_seconds else mail.dequeue(self.store, box)

        def describe(got: Delivery | None) -> Facts:
            return {} if got is None else {"message": got.message.msg_id, "token": got.delivery_token, "attempt": got.message.attempt}

        return self.attempt("mail.dequeue", dequeue, describe, box=box, lease=INFLIGHT_SECONDS)

    def ack(self, box: str, message: str, token: str) -> AckResult | None:
        ack = lambda: mail.ack(self.store, box, message, delivery_token=token)  # noqa: E731
        return self.attempt("mail.ack", ack, _changed, box=box, message=message, token=token)

    def nack(self, box: str, message: str, token: str) -> NackResult | None:
        nack = lambda: mail.nack(self.store, box, message, "not now", delivery_token=token)  # noqa: E731
        return self.attempt("mail.nack", nack, _changed, box=box, message=message, token=token)

    def extend(self, box: str, message: str, token: str) -> ExtendResult | None:
        extend = lambda: mail.extend(self.store, box, message, delivery_token=token)  # noqa: E731
        return self.attempt("mail.extend", extend, box=box, message=message, token=token)


class TaskVerbs:
    """Tasks, jobs and sheets."""

    def __init__(self, store: Store, recorder: Recorder) -> None:
        self.conductor, self.attempt = Conductor(store), recorder.attempt

    def submit(self, source: str, target: str, text: str) -> A2ATask | None:
        submit = lambda: self.conductor.submit(source, target, text)  # noqa: E731
        return self.attempt("tasks.submit", submit, lambda task: {"task": task.task_id}, body=text)

    def start_job(self, agent: str, lease: float) -> Job | None:
        start = lambda: self.conductor.start_job(agent, lease_seconds=lease)  # noqa: E731
        return self.attempt("tasks.start_job", start, lambda job: {"job": job.job_id}, agent=agent)

    def begin_sheet(self, agent: str, job: str, lease: float) -> Sheet | None:
        def describe(sheet: Sheet) -> Facts:
            tasks = [task.task_id for task in sheet.tasks if task.kind == "task"]
            results = [task.answers for task in sheet.tasks if task.kind == "result"]
            return {"token": sheet.token, "tasks": tasks, "results": results, "text": sheet.text}

        begin = lambda: self.conductor.begin_sheet(job, lease_seconds=lease)  # noqa: E731
        return self.attempt("tasks.begin_sheet", begin, describe, job=job, agent=agent, lease=lease)

    def end_sheet(self, job: str, token: str) -> None:
        self.attempt("tasks.end_sheet", lambda: self.conductor.end_sheet(job, token), job=job, token=token)

    def end_job(self, job: Job) -> None:
        self.attempt("tasks.end_job", lambda: self.conductor.end_job(job.job_id, lease_token=job.lease_token), job=job.job_id)

    def accept(self, agent: str, lease: float, wait_seconds: float = 0) -> Accepted | None:
        def accept() -> Accepted | None:
            if not wait_seconds:
                return self.conductor.accept_next(agent, lease_seconds=lease)
            return self.conductor.wait_accept(agent, lease_seconds=lease, timeout_seconds=wait_seconds)

        def describe(accepted: Accepted | None) -> Facts:
            return {} if accepted is None else {"task": accepted.task.task_id, "token": accepted.lease_token}

        return self.attempt("tasks.accept", accept, describe, agent=agent, lease=lease)

    def renew(self, agent: str, task: str, token: str, lease: float) -> None:
        renew = lambda: self.conductor.renew(task, agent=agent, lease_token=token, lease_seconds=lease)  # noqa: E731
        self.attempt("tasks.renew", renew, task=task, token=token, lease=lease)

    def complete(self, agent: str, task: str, token: str) -> None:
        complete = lambda: self.conductor.complete(task, agent=agent, artifacts={"found": token}, lease_token=token)  # noqa: E731
        self.attempt("tasks.complete", complete, task=task, token=token)

    def fail(self, agent: str, task: str, token: str) -> None:
        fail = lambda: self.conductor.fail(task, "cannot be done", agent=agent, lease_token=token)  # noqa: E731
        self.attempt("tasks.fail", fail, task=task, token=token)


class QueueVerbs:
    """An event queue."""

    def __init__(self, queue: Queue, recorder: Recorder) -> None:
        self.queue, self.attempt = queue, recorder.attempt

    def push(self, texts: list[str]) -> None:
        drafts = [{"source": "self", "type": "record", "subtype": "note", "content": text} for text in texts]
        self.attempt("queues.push", lambda: queues.push_batch(self.queue, drafts), _ids, contents=texts)

    def pop(self, consumer: str) -> tuple[QueueEvent, ...]:
        popped = self.attempt("queues.pop", lambda: queues.pop(self.queue, consumer, limit=20), _ids, consumer=consumer)
        return popped or ()

    def ack(self, consumer: str, last: int) -> None:
        self.attempt("queues.ack", lambda: queues.ack(self.queue, consumer, last_event_id=last), consumer=consumer, last=last)


class PeopleVerbs:
    """Entries and questions, as the agent and as the person."""

    def __init__(self, store: Store, recorder: Recorder, workspace: str) -> None:
        self.store, self.attempt, self.workspace = store, recorder.attempt, workspace

    def push(self, text: str) -> Entry | None:
        return self.attempt("people.push", lambda: people.push(self.store, self.workspace, comments=text), _entry, body=text)

    def ask(self, text: str) -> Entry | None:
        ask = lambda: people.ask(self.store, workspace_id=self.workspace, question=text, choices=["yes", "no"])  # noqa: E731
        return self.attempt("people.ask", ask, _entry, body=text)

    def wait_answer(self, entry: str, seconds: float) -> Answer | None:
        wait = lambda: people.wait_answer(self.store, entry, timeout_seconds=seconds)  # noqa: E731
        return self.attempt("people.wait_answer", wait, lambda answer: {"state": answer.state, "answer": answer.answer}, entry=entry)

    def history(self) -> EntryPage | None:
        shown = lambda page: {"shown": [entry.id for entry in page.entries]}  # noqa: E731
        return self.attempt("people.history", lambda: people.history(self.store, limit=20), shown)

    def reply(self, entry: str, body: str, key: str) -> None:
        self.attempt("people.reply", lambda: people.reply(self.store, entry, person=USER, body=body, key=key), entry=entry, body=body)

    def delete(self, entry: str) -> None:
        self.attempt("people.delete", lambda: people.delete_entry(self.store, entry, person=USER), entry=entry)

    def mark_read(self, entry: str) -> None:
        self.attempt("people.mark_read", lambda: people.mark_read(self.store, entry, person=USER), entry=entry)

    def read_messages(self) -> int:
        """Read the person's replies as the agent. Return their number."""
        read = self.attempt("people.read", lambda: people.read_messages(self.store, agent=ATLAS), lambda read: {"count": len(read)})
        return len(read or ())
