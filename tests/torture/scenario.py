"""One short, undisturbed scene with every room in it, in one process: enough for each planted fault to show."""

from __future__ import annotations

from pathlib import Path
from time import sleep

from postroom import queues
from tests.torture import draining, maintenance
from tests.torture.actors import BOXES, CONSUMERS, HOSTILE, Actor, Setting
from tests.torture.stage import SQLITE, TortureStage
from tests.torture.verbs import QueueVerbs

LEASE_SECONDS = 0.1


def play(folder: Path) -> TortureStage:
    """Set a store up in a file, play the scene, and drain. Returns the stage, which has no processes."""
    stage = TortureStage(SQLITE, folder, seed=1)
    first, second = _cast(stage, "first"), _cast(stage, "second")
    _play_threads(first, second)
    _play_mail(first, second)
    _play_tasks(first)
    _play_queue(first)
    _play_people(first)
    cursor, _ = first.threads.follow(0, "first", 0.01)
    _play_maintenance(stage, first)
    for name, drain in draining.ROOMS.items():
        drain(_cast(stage, name))
    maintenance.repeat_pruned(_cast(stage, "again"))
    first.people.history()
    for _ in range(2):  # the first may say that the cursor has expired
        cursor, _ = first.threads.follow(cursor, "first", 0.01)
    return stage


def play_restore(stage: TortureStage) -> None:
    """Go on after `play`: take a backup, send more, restore the backup, send more, and drain."""
    actor = _cast(stage, "restorer")
    actor.threads.send("before the backup", "before")
    maintenance.back_up_once(actor)
    actor.threads.send("after the backup", "after")
    actor.mail.enqueue("m-after", "ada", BOXES[0], "after the backup, by mail")
    cursor = 1
    for _ in range(2):
        cursor, _ = actor.threads.follow(cursor, "restorer", 0.01)
    maintenance.restore_once(actor)
    actor.threads.send("after the restore", "since")
    for name, drain in draining.ROOMS.items():
        drain(_cast(stage, f"{name}-restored"))
    for watcher in ("restorer", "first"):
        following, _ = actor.threads.follow(cursor, watcher, 0.01)
        actor.threads.follow(following, watcher, 0.01)


def _play_maintenance(stage: TortureStage, actor: Actor) -> None:
    """Back up, end one more thread, of which the watcher knows nothing, and prune all that has ended."""
    verbs = maintenance.MaintenanceVerbs(actor.store, actor.recorder)
    verbs.back_up(stage.folder / "backups" / "scene.db")
    actor.threads.send("three", "three")
    claim = actor.threads.take(LEASE_SECONDS)
    if claim is not None:
        actor.threads.done(claim.thread.thread_id, claim.lease.lease_token, actor.text())
    verbs.prune(0)


def _cast(stage: TortureStage, name: str) -> Actor:
    setting = Setting(name, stage.location, str(stage.queue), stage.workspace_id, 1, stage.history, stage.control)
    return Actor(setting, patience_seconds=0.5)


def _play_threads(first: Actor, second: Actor) -> None:
    """Send twice with one key. Claim one thread twice, take it over after its lease, and let its first owner report. Forget another."""
    for key in ("one", "one", "two"):
        first.threads.send(f"{key}{HOSTILE}", key)
    claim = first.threads.take(LEASE_SECONDS)
    if claim is None:
        return
    thread, token = claim.thread.thread_id, claim.lease.lease_token
    second.threads.claim(thread, LEASE_SECONDS)
    sleep(LEASE_SECONDS * 1.5)
    taken = second.threads.claim(thread, LEASE_SECONDS)
    first.threads.update(thread, token, first.text())
    if taken is not None:
        second.threads.update(thread, taken.lease.lease_token, second.text())
        second.threads.done(thread, taken.lease.lease_token, second.text())
    second.threads.take(LEASE_SECONDS)


def _play_mail(first: Actor, second: Actor) -> None:
    first.mail.enqueue("m1", "ada", BOXES[0], first.text())
    got = first.mail.dequeue(BOXES[0])
    second.mail.dequeue(BOXES[0])
    if got is not None:
        first.mail.ack(BOXES[0], got.message.msg_id, got.delivery_token)


def _play_tasks(actor: Actor) -> None:
    """Show one task on a sheet and complete it. Accept another, and forget it."""
    actor.tasks.submit("canyon", "forge", f"first{HOSTILE}")
    job = actor.tasks.start_job("forge", LEASE_SECONDS)
    sheet = None if job is None else actor.tasks.begin_sheet("forge", job.job_id, LEASE_SECONDS)
    for task in () if sheet is None else sheet.tasks:
        actor.tasks.complete("forge", task.task_id, sheet.token if sheet is not None else "")
    actor.tasks.submit("canyon", "forge", f"second{HOSTILE}")
    actor.tasks.accept("forge", LEASE_SECONDS)


def _play_queue(actor: Actor) -> None:
    with queues.open_queue(actor.setting.queue) as queue:
        verbs = QueueVerbs(queue, actor.recorder)
        verbs.push([actor.text(), actor.text()])
        for consumer in CONSUMERS:
            for event in verbs.pop(consumer):
                verbs.ack(consumer, event.id)


def _play_people(actor: Actor) -> None:
    shown, asked = actor.people.push(actor.text()), actor.people.ask(actor.text())
    actor.people.history()
    if shown is not None and asked is not None:
        actor.people.mark_read(shown.id)
        actor.people.reply(asked.id, "yes", "key")
        actor.people.wait_answer(asked.id, 1)
    actor.people.push(actor.text())
    actor.people.history()
