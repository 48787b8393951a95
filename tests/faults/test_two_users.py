"""Two real users and one queue: everybody who may write it may push, and its handlers run as its owner alone.

Root runs these tests with users that exist by their number only. For everybody else, who cannot become another user, test_ownership.py
tests the same refusals with files of root.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.process import LIMIT, Finished, eventually
from tests.cli.queue_process import COMMANDS, BusyQueueCommands, lines

OWNER, MEMBER, STRANGER, GROUP = 41001, 41002, 41003, 41000
# Root's home may hold the interpreter. A user of these tests may read everything, but write only what is its own.
READER = "-all,+dac_read_search"
EVENT = ("--source", "self", "--type", "record", "--content", "x")
HANDLER = "id -u >> who; thread pop > batch && thread ack --events batch"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become two users; test_ownership.py tests the same as one user")


class UserCommands(BusyQueueCommands):
    """The commands of one user, with a home and a notifier of its own, on the queue of the owner."""

    def __init__(self, folder: Path, user: int) -> None:
        super().__init__(folder)
        self.user = user
        self.home = folder / f"home-{user}"
        self.home.mkdir()
        os.chown(self.home, user, user)

    def run(self, program: str, argv: object, environment: dict[str, str], *, stdin: bytes = b"", unprivileged: bool = False) -> Finished:
        assert isinstance(argv, list | tuple)
        groups = ["--groups", str(GROUP)] if self.user in (OWNER, MEMBER) else ["--clear-groups"]
        rights = [f"--inh-caps={READER}", f"--ambient-caps={READER}", f"--bounding-set={READER}"] if self.user else []
        become = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", *groups, *rights] if self.user else []
        line = [*become, *COMMANDS[program], *argv]
        done = subprocess.run(
            line, input=stdin, capture_output=True, cwd="/", env=self.environment(**environment), timeout=LIMIT, check=False
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def who(self) -> list[str]:
        """The users that a run of the handler has been, one for each."""
        file = self.work() / "who"
        return file.read_text().split() if file.exists() else []


@pytest.fixture
def users(tmp_path: Path) -> Iterator[dict[int, UserCommands]]:
    os.chown(tmp_path, OWNER, GROUP)
    tmp_path.chmod(0o2755)
    made = {user: UserCommands(tmp_path, user) for user in (OWNER, MEMBER, STRANGER, 0)}
    yield made
    for user in made.values():
        user.end_all()


@pytest.fixture
def shared(users: dict[int, UserCommands]) -> dict[int, UserCommands]:
    """A queue that its owner shares with a group, and that has a consumer."""
    owner = users[OWNER]
    assert owner.thread("init", str(owner.queue), "--shared", str(GROUP)).code == 0
    owner.subscribe("c", HANDLER)
    return users


def _push_left_to_owner(pusher: UserCommands) -> None:
    """Push an event: it is stored, its pusher is told who starts the handler, and nothing runs as the pusher."""
    said = pusher.on_queue("push", *EVENT)
    assert (said.code, said.stderr.count(f"Its handlers run as user {OWNER}")) == (0, 1), said
    assert said.stdout.strip().isdigit()
    assert list(pusher.home.iterdir()) == [], "nothing was queued for a runner of the pusher"
    assert pusher.processes() == []


@pytest.mark.parametrize("pusher", [MEMBER, 0], ids=["member", "root"])
def test_an_event_of_another_user_waits_for_its_owner(shared: dict[int, UserCommands], pusher: int) -> None:
    owner = shared[OWNER]
    _push_left_to_owner(shared[pusher])
    assert owner.who() == []
    assert f"belongs to user {OWNER}" in shared[pusher].refuses(1, "thread", "dispatch", "--thread", str(owner.queue))["error"]
    assert owner.info()["subscriptions"][0]["waiting_since"] is not None
    assert owner.push() == 2
    eventually(lambda: owner.info()["subscriptions"][0]["last_acked_id"] == 2)
    assert set(owner.who()) == {str(OWNER)}


@pytest.mark.parametrize("pusher", [MEMBER, 0], ids=["member", "root"])
def test_a_runner_of_the_owner_that_stays_up_handles_the_events_of_others(shared: dict[int, UserCommands], pusher: int) -> None:
    owner = shared[OWNER]
    assert owner.notifier("start").code == 0
    _push_left_to_owner(shared[pusher])
    eventually(lambda: owner.info()["subscriptions"][0]["last_acked_id"] == 1)
    assert set(owner.who()) == {str(OWNER)}


def test_all_users_write_the_same_files_whoever_comes_first(shared: dict[int, UserCommands]) -> None:
    owner = shared[OWNER]
    for user in (0, MEMBER, OWNER, 0, OWNER, MEMBER):
        assert shared[user].on_queue("push", *EVENT, THREAD_NOTIFIER="true").code == 0
    assert [event["id"] for event in owner.journal()] == [1, 2, 3, 4, 5, 6]
    assert [event["id"] for event in lines(owner.on_queue("peek", "--last-event-id", "0").stdout)] == [1, 2, 3, 4, 5, 6]
    assert owner.log().count("push") >= 6, "the log of a queue is everybody's too"
    for file in (owner.queue, *owner.queue.rglob("*")):
        assert (file.stat().st_gid, file.stat().st_mode & 0o020) == (GROUP, 0o020), file


def test_what_root_writes_first_belongs_to_the_owner(users: dict[int, UserCommands]) -> None:
    owner = users[OWNER]
    owner.init()
    for user in (0, OWNER, 0, OWNER):
        assert users[user].on_queue("push", *EVENT, THREAD_NOTIFIER="true").code == 0
    assert [event["id"] for event in owner.journal()] == [1, 2, 3, 4]
    assert owner.log().count("push: source") == 4
    assert {file.stat().st_uid for file in owner.queue.rglob("*")} == {OWNER}


def test_a_push_that_is_refused_leaves_nothing_that_stops_the_owner(users: dict[int, UserCommands]) -> None:
    owner = users[OWNER]
    owner.init()
    for user in (MEMBER, STRANGER):
        refused = users[user].on_queue("push", *EVENT)
        assert (refused.code, refused.stdout) == (1, ""), refused
        assert "cannot be written" in refused.stderr
    assert owner.on_queue("push", *EVENT, THREAD_NOTIFIER="true").code == 0
    assert users[0].on_queue("push", *EVENT).code == 0
    assert owner.on_queue("push", *EVENT, THREAD_NOTIFIER="true").code == 0
    assert [event["id"] for event in owner.journal()] == [1, 2, 3]
    assert {file.stat().st_uid for file in owner.queue.rglob("*")} == {OWNER}, "what root wrote is the owner's"
