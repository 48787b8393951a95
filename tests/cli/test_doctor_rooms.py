"""`inbox doctor` reads all rows of each room, and the commands that it prints can be run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import postroom
from postroom import mail, work
from postroom.core.records.work import PostedMessage
from postroom.queues import dead_events, subscriptions
from postroom.queues.queue import open_queue, push
from postroom.store.interface import Store
from postroom.tasks import Conductor
from tests.cli.process import SCRIPT, Inbox, eventually, processes_with
from tests.cli.queue_process import UNSCHEDULED, acking

PAGE_ROWS = 1000  # that doctor reads at a time
PROGRAMS = ("inbox", "mailbox", "thread")


def examine(inbox: Inbox, what: str) -> dict[str, str]:
    checks = inbox.run("doctor", "--json").json["checks"]
    return next(check for check in checks if check["what"] == what)


def run_printed(inbox: Inbox, text: str) -> list[str]:
    """Run each command in a text that doctor or a note prints, with a name for NAME. Return the commands."""
    commands = [part for part in re.split(r", (?:then|or) |`", text) if part.split(" ", 1)[0] in PROGRAMS]
    for command in commands:
        program, *argv = shlex.split(command.replace("NAME", "alive"))
        finished = inbox.execute(argv, UNSCHEDULED, program=program)
        assert finished.code == 0, (command, finished)
    return commands


def send_many(store: Store, to: str) -> tuple[PostedMessage, ...]:
    return work.send_all(store, [{"to": to, "subject": str(number)} for number in range(PAGE_ROWS)], sender="leader")


def test_one_lapsed_lease_among_many_held_threads_is_found(inbox: Inbox) -> None:
    with postroom.open(str(inbox.db)) as store:
        work.claim(store, inbox.send(), agent="ada", lease_seconds=0.001)
        for posted in send_many(store, "ada"):
            work.claim(store, posted.thread.thread_id, agent="ada")
    found = examine(inbox, "held work")
    assert (found["state"], found["says"].startswith("1 with a lease that ran out")) == ("warn", True)


def test_one_old_task_among_many_new_ones_is_found(inbox: Inbox) -> None:
    with postroom.open(str(inbox.db)) as store:
        conductor = Conductor(store)
        for name in ("leader", "ada"):
            conductor.register(name)
        first = conductor.submit("leader", "ada", "x")
        for _ in range(PAGE_ROWS):
            conductor.submit("leader", "ada", "x")
    with closing(sqlite3.connect(inbox.db)) as database, database:
        database.execute("UPDATE tasks SET created_at = '2020' || substr(created_at, 5) WHERE task_id = ?", (first.task_id,))
    found = examine(inbox, "tasks")
    assert (found["state"], found["says"]) == ("warn", f"1 wait for more than a day, for example {first.task_id} for ada")


def test_one_dead_letter_behind_many_mailboxes_is_found(inbox: Inbox) -> None:
    with postroom.open(str(inbox.db)) as store:
        for number in range(PAGE_ROWS):
            mail.enqueue(store, {"from": "ann", "to": f"box{number:04}", "payload": "x"})
    bury_letter(inbox, "last")
    found = examine(inbox, "mailboxes")
    assert (found["state"], found["says"], found["mend"]) == ("warn", "1 dead letters", "mailbox peek-dead-letter --session last")


def test_one_name_that_was_never_seen_among_many_is_found(inbox: Inbox) -> None:
    misspell_name(inbox)
    with postroom.open(str(inbox.db)) as store:
        send_many(store, "leader")
    found = examine(inbox, "pending work")
    assert (found["state"], found["says"]) == ("warn", f"{PAGE_ROWS + 1} wait; never seen: adda")


def bury_letter(inbox: Inbox, session: str) -> None:
    """Make a dead letter."""
    for line in (
        f"policy --session {session} --max-retries 0",
        f"enqueue --from ann --to {session} --payload x --msg-id m1",
        f"dequeue --session {session}",
        f"nack --session {session} --msg-id m1",
    ):
        assert inbox.execute(line.split(), {}, program="mailbox").code == 0


def watch_queue(inbox: Inbox, handler: str = "true") -> Path:
    """A watched queue with one event that no handler has got."""
    folder = inbox.folder / "events"
    assert inbox.execute(["init", str(folder)], {}, program="thread").code == 0
    with open_queue(str(folder)) as queue:
        subscriptions.subscribe(queue, "reader", handler=handler)
        push(queue, source="internal:dm:default:ann", type="message", content="x")
    inbox.ok("queue", "add", str(folder))
    return folder


def test_an_event_that_was_set_aside_is_found(inbox: Inbox) -> None:
    folder = watch_queue(inbox)
    assert examine(inbox, "queues")["state"] == "ok"
    with open_queue(str(folder)) as queue:
        dead_events.set_aside(queue, "reader", 1, tries=3, reason="exit 1")
    found = examine(inbox, "queues")
    assert (found["state"], found["says"]) == ("warn", f"{folder}: 1 set aside for reader")
    assert len(run_printed(inbox, found["mend"])) == 2


def test_a_consumer_that_does_not_get_its_events_is_found(inbox: Inbox) -> None:
    folder = watch_queue(inbox, acking(1))
    with closing(sqlite3.connect(folder / "events.db")) as database, database:
        database.execute("UPDATE events SET created_at = '2020' || substr(created_at, 5)")
    found = examine(inbox, "queues")
    assert (found["state"], "events wait for reader since 2020" in found["says"]) == ("warn", True)
    assert len(run_printed(inbox, found["mend"])) == 2
    eventually(lambda: examine(inbox, "queues")["state"] == "ok")
    eventually(lambda: not processes_with(f"HOME={inbox.folder}"))  # a supervisor ends when its handler has read everything


# Printed commands


def lose_worker(inbox: Inbox) -> None:
    inbox.send()
    inbox.ok("take", "--agent", "builder", "--lease-seconds", "0.001")


def misspell_name(inbox: Inbox) -> None:
    inbox.ok("send", "--from", "leader", "--to", "adda", "--subject", "x")


def forget_task(inbox: Inbox) -> None:
    for name in ("leader", "ada"):
        inbox.ok("agent", "register", name)
    inbox.ok("task", "submit", "--from", "leader", "--to", "ada", "--description", "x")
    with closing(sqlite3.connect(inbox.db)) as database, database:
        database.execute("UPDATE tasks SET created_at = '2020' || substr(created_at, 5)")


@pytest.mark.parametrize(
    ("what", "cause", "commands"),
    [
        ("held work", lose_worker, 2),
        ("pending work", misspell_name, 2),
        ("tasks", forget_task, 2),
        ("mailboxes", lambda inbox: bury_letter(inbox, "box"), 1),
    ],
    ids=["held", "pending", "tasks", "mailboxes"],
)
def test_the_commands_that_doctor_prints_can_be_run(inbox: Inbox, what: str, cause: Callable[[Inbox], None], commands: int) -> None:
    cause(inbox)
    mend = examine(inbox, what)["mend"]
    if what == "held work":  # the first of both takes it, and then it is held
        mend = mend.replace("inbox take --agent NAME, or ", "")
        commands = 1
    assert len(run_printed(inbox, mend)) == commands


def test_the_command_in_the_note_of_a_send_gives_the_thread_away(inbox: Inbox) -> None:
    thread = inbox.send()
    finished = inbox.run("send", "--from", "leader", "--thread", thread, "--to", "alive", "--summary", "x", "--json")
    assert len(run_printed(inbox, finished.json["note"])) == 1
    assert inbox.run("show", "--thread", thread, "--json").json["thread"]["assigned_to"] == "alive"


# The disk


def test_a_disk_without_room_fails(inbox: Inbox) -> None:
    """A file system of 14 MiB is mounted in a namespace of the test's own."""
    folder = inbox.folder / "small"
    folder.mkdir()
    script = f"mount -t tmpfs -o size=14m none {folder} && cd {folder} && {SCRIPT} init --db a.db > /dev/null; {SCRIPT} doctor --db a.db"
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-Urm", "true"], check=False).returncode:
        assert not os.environ.get("CI"), "under CI, user namespaces must be there"
        pytest.skip("this machine has no user namespaces")
    finished = subprocess.run(["unshare", "-Urm", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert finished.returncode == 50, finished
    assert re.search(r"^fail +disk: \d+ MiB free", finished.stdout, re.MULTILINE), finished.stdout
