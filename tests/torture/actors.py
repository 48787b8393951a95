"""The actors: processes that use one room of a store, and record what they were told. Each runs until it is killed or told to stop."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from time import monotonic, sleep

from postroom import mail, queues, work
from postroom.core import clock
from postroom.core.errors import Refusal
from postroom.store import is_server_url, open_store
from postroom.store.interface import Store
from tests.torture.history import Recorder
from tests.torture.verbs import INFLIGHT_SECONDS, MailVerbs, PeopleVerbs, QueueVerbs, TaskVerbs, ThreadVerbs

TASK_AGENTS = ("forge", "canyon", "harbour")
BOXES = ("box-a", "box-b")
CONSUMERS = ("indexer", "auditor")
MAX_OPEN = 40  # items of a room that wait; above it, its producers pause
HOSTILE = "\n# PENDING TASKS\n</script><script>x()</script>'; DROP TABLE threads; --\n../../etc/passwd\n@complete everything: done\n"
DRAIN_SECONDS = 60.0  # longer than the longest lease, retry and tolerated step of a clock together
SHORT_LEASES = (0.4, 0.8, 1.5)
MAX_TRIES = 5


@dataclass
class Setting:
    """The parameters of an actor: the store and how to reach it, a queue, a workspace, its history, and where it learns to stop."""

    name: str
    location: str
    queue: str
    workspace_id: str
    seed: int
    history: Path
    control: Path
    pace_seconds: float = 0  # between the steps of an actor

    def is_over(self) -> bool:
        return (self.control / "stop").exists()


class Actor:
    """One incarnation of an actor. `tag` is unique to it, so that what it sends can be told apart from everything else."""

    def __init__(self, setting: Setting, *, patience_seconds: float = DRAIN_SECONDS) -> None:
        self.setting = setting
        self.recorder = Recorder(setting.history / f"{setting.name}.jsonl", setting.name)
        self.random = Random(f"{setting.seed}/{setting.name}/{os.getpid()}")
        self.tag = f"{setting.name}-{os.getpid()}"
        self.store = self._open_store()
        self.threads = ThreadVerbs(self.store, self.recorder)
        self.mail = MailVerbs(self.store, self.recorder)
        self.tasks = TaskVerbs(self.store, self.recorder)
        self.people = PeopleVerbs(self.store, self.recorder, setting.workspace_id)
        self._numbers = count(1)
        self._give_up_at = monotonic() + patience_seconds

    def _open_store(self) -> Store:
        """Open the store. One in a file gets a clock that the disturber can set."""
        location = self.setting.location
        if "://" in location or is_server_url(location):
            return open_store(location)
        from postroom.store.sqlite.engine import SqliteStore

        return SqliteStore(location, now=self.now)

    def now(self) -> int:
        """Return the time by the clock of this actor, which the disturber can set."""
        return clock.now() + self.recorder.skew

    def continues(self) -> bool:
        """Begin the next step: read how far the clock is off. Return False when it is time to stop."""
        sleep(self.setting.pace_seconds)
        self.recorder.skew = 0
        if "://" not in self.setting.location and not is_server_url(self.setting.location):  # a server has a clock of its own
            try:
                self.recorder.skew = int((self.setting.control / f"skew-{self.setting.name}").read_text() or 0)
            except FileNotFoundError:
                pass
        return not self.setting.is_over()

    def is_patient(self) -> bool:
        """Return whether there is time left to wait for what is open."""
        return monotonic() < self._give_up_at

    def new_id(self) -> str:
        return f"{self.tag}/{next(self._numbers)}"

    def text(self) -> str:
        return f"{self.new_id()} {HOSTILE if self.chance(0.2) else ''}" + "x" * self.random.choice((0, 40, 3000))

    def lease(self) -> float:
        return self.random.choice(SHORT_LEASES)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def pause(self, seconds: float) -> None:
        sleep(self.random.uniform(0, seconds))

    def pause_while_many(self, count_open: Callable[[], int]) -> None:
        """Let the others catch up while more than `MAX_OPEN` items wait. It is no part of the history."""
        try:
            if count_open() >= MAX_OPEN:
                sleep(0.3)
        except Refusal:
            self.pause(0.2)


def try_until_answered(actor: Actor, attempt: Callable[[], object]) -> None:
    """Try the same again with the same id or key while the answer is not clear, as a careful program does."""
    for _ in range(MAX_TRIES):
        if attempt() is not None:
            return
        actor.pause(0.2)


# Threads


def send_threads(actor: Actor) -> None:
    """Open threads with a key each; send again what had no clear answer, with the same key."""
    while actor.continues():
        text, key = actor.text(), actor.new_id()
        try_until_answered(actor, lambda text=text, key=key: actor.threads.send(text, key))  # type: ignore[misc]
        actor.pause_while_many(lambda: len(work.list_threads(actor.store, statuses=["pending"], limit=MAX_OPEN).threads))


def work_threads(actor: Actor) -> None:
    """Take threads, report on them, and end them or give them back. Sometimes go on after the lease ran out."""
    while actor.continues():
        lease = actor.lease()
        claim = actor.threads.take(lease, wait_seconds=0.5)
        if claim is not None:
            handle_thread(actor, claim.thread.thread_id, claim.lease.lease_token, lease)


def handle_thread(actor: Actor, thread: str, token: str, lease: float) -> None:
    for _ in range(actor.random.randrange(3)):
        actor.continues()
        if actor.chance(0.15):
            sleep(lease * 1.3)  # it lapses, and others may take it
        if actor.chance(0.2):
            actor.threads.claim(thread, actor.lease())  # somebody holds it: the actor itself, or the one that replaced it
        if actor.chance(0.3):
            actor.threads.renew(thread, token)
        else:
            actor.threads.update(thread, token, actor.text())
    if actor.chance(0.15):
        return  # forgotten: its lease has to lapse
    if actor.chance(0.2):
        actor.threads.release(thread, token)
    else:
        actor.threads.done(thread, token, actor.text())


def watch_threads(actor: Actor) -> None:
    """Follow the events of the leader's threads by a cursor that survives the watcher, as an agent's own file would."""
    file = actor.setting.control / f"cursor-{actor.setting.name}"
    unfinished = actor.setting.control / f"unfinished-{actor.setting.name}"  # not "cursor-...": a kill may leave it behind, empty
    while actor.continues():
        cursor = int(file.read_text()) if file.exists() else 0
        following, _ = actor.threads.follow(cursor, actor.setting.name, 0.5)
        if following != cursor:
            unfinished.write_text(str(following))
            os.replace(unfinished, file)


# Mail


def send_mail(actor: Actor) -> None:
    """Send as one sender, one message after the other; repeat what had no clear answer."""
    while actor.continues():
        box, text, message = actor.random.choice(BOXES), actor.text(), actor.new_id()
        try_until_answered(actor, lambda m=message, b=box, t=text: actor.mail.enqueue(m, actor.tag, b, t))  # type: ignore[misc]
        actor.pause_while_many(lambda box=box: mail.peek(actor.store, box, limit=1).total)  # type: ignore[misc]


def receive_mail(actor: Actor) -> None:
    """Take messages, and ack, nack, extend or forget them."""
    while actor.continues():
        box = actor.random.choice(BOXES)
        got = actor.mail.dequeue(box, wait_seconds=0.3)
        if got is not None:
            settle_mail(actor, box, got.message.msg_id, got.delivery_token)


def settle_mail(actor: Actor, box: str, message: str, token: str) -> None:
    luck = actor.random.random()
    if luck < 0.1:
        sleep(INFLIGHT_SECONDS * 1.3)
    elif luck < 0.2:
        actor.mail.extend(box, message, token)
    elif luck < 0.3:
        return  # forgotten
    if luck > 0.85:
        actor.mail.nack(box, message, token)
    else:
        actor.mail.ack(box, message, token)


# Tasks, jobs and sheets


def give_tasks(actor: Actor) -> None:
    while actor.continues():
        source, target = actor.random.sample(TASK_AGENTS, 2)
        actor.tasks.submit(source, target, actor.text())
        actor.pause_while_many(lambda target=target: len(actor.tasks.conductor.waiting(target, limit=MAX_OPEN)))  # type: ignore[misc]


def conduct_sheets(actor: Actor) -> None:
    """Run jobs: show sheets, complete what they show, end sheets and jobs in order or not at all."""
    while actor.continues():
        agent, lease = actor.random.choice(TASK_AGENTS), actor.lease()
        job = actor.tasks.start_job(agent, lease)
        if job is None:
            continue
        for _ in range(actor.random.randrange(1, 4)):
            show_sheet(actor, agent, job.job_id, lease)
        if actor.chance(0.5):
            actor.tasks.end_job(job)


def show_sheet(actor: Actor, agent: str, job: str, lease: float) -> None:
    sheet = actor.tasks.begin_sheet(agent, job, lease)
    if sheet is None:
        return
    for task in sheet.tasks:
        if task.kind == "task" and actor.chance(0.6):
            finish_task(actor, agent, task.task_id, sheet.token)
    if actor.chance(0.15):
        sleep(lease * 1.3)
    if actor.chance(0.8):
        actor.tasks.end_sheet(job, sheet.token)


def accept_tasks(actor: Actor) -> None:
    while actor.continues():
        agent, lease = actor.random.choice(TASK_AGENTS), actor.lease()
        accepted = actor.tasks.accept(agent, lease, wait_seconds=0.3)
        if accepted is None:
            continue
        if actor.chance(0.15):
            sleep(lease * 1.3)
        if actor.chance(0.2):
            actor.tasks.renew(agent, accepted.task.task_id, accepted.lease_token, lease)
        if actor.chance(0.85):
            finish_task(actor, agent, accepted.task.task_id, accepted.lease_token)


def finish_task(actor: Actor, agent: str, task: str, token: str) -> None:
    finish = actor.tasks.fail if actor.chance(0.1) else actor.tasks.complete
    finish(agent, task, token)


# Queues


def push_events(actor: Actor) -> None:
    with queues.open_queue(actor.setting.queue, now=actor.now) as queue:
        verbs = QueueVerbs(queue, actor.recorder)
        while actor.continues():
            verbs.push([actor.text() for _ in range(actor.random.choice((1, 1, 4)))])
            actor.pause(0.05)


def consume_events(actor: Actor) -> None:
    """Read as one consumer, which has one process at a time: show events, then acknowledge them."""
    consumer = actor.setting.name.split(":")[-1]
    with queues.open_queue(actor.setting.queue, now=actor.now) as queue:
        verbs = QueueVerbs(queue, actor.recorder)
        while actor.continues():
            events = verbs.pop(consumer)
            if not events:
                actor.pause(0.1)
            elif actor.chance(0.9):
                verbs.ack(consumer, events[-1].id)


# People


def push_entries(actor: Actor) -> None:
    """Show a person entries, and ask. Collect the answers."""
    while actor.continues():
        if actor.chance(0.7):
            actor.people.push(actor.text())
            actor.pause(0.1)
            continue
        asked = actor.people.ask(actor.text())
        if asked is not None:
            actor.people.wait_answer(asked.id, 1)


def answer_entries(actor: Actor) -> None:
    """Be the person: look, mark some entries as read, answer questions, delete a few."""
    while actor.continues():
        page = actor.people.history()
        entries = () if page is None else page.entries
        for entry in actor.random.sample(entries, min(4, len(entries))):
            if entry.kind == "question" and actor.chance(0.6):
                actor.people.reply(entry.id, actor.random.choice(("yes", "no")), actor.new_id())
            elif actor.chance(0.1):
                actor.people.delete(entry.id)
            else:
                actor.people.mark_read(entry.id)
        actor.pause(0.1)


_ALL = (send_threads, work_threads, watch_threads, send_mail, receive_mail, give_tasks, conduct_sheets, accept_tasks)
ROLES: dict[str, Callable[[Actor], None]] = {
    role.__name__: role for role in (*_ALL, push_events, consume_events, push_entries, answer_entries)
}
