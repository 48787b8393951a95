"""A sender of alerts that is killed at any step: nothing is lost, and a message that comes twice has one id."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from postroom.outbound.sender import SEND_COMMAND
from postroom.people.channels import queueing
from postroom.store import open_store
from tests.cli.mailbox_process import Mailbox
from tests.cli.process import LIMIT, Inbox, eventually, is_alive
from tests.server.receivers import WebReceiver, web_receiver

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="


class StoreWithChannel:
    """A store without a server, whose one person has one channel."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inbox = Inbox(folder)
        self.mailbox = Mailbox(folder)
        self.inbox.found()

    def add(self, kind: str, target: str, *more: str) -> str:
        """The mailbox of a new channel, whose messages are offered again at once."""
        session: str = self.inbox.ok("channel", "add", kind, target, "--delay-seconds", "0", *more)["channel"]["mailbox"]
        self.mailbox.ok("policy", "--session", session, "--base-backoff-secs", "0", "--inflight-timeout-secs", "0.3")
        return session

    def webhook(self, receiver: WebReceiver) -> str:
        secret = self.folder / "hook.secret"
        secret.write_text(SECRET)
        return self.add("webhook", receiver.url, "--secret-file", str(secret))

    def ask(self) -> str:
        entry: str = self.inbox.ok("ask", "--from", "builder", "--question", "Ship it?", "--no-wait")["answer"]["entry_id"]
        return entry

    def steps(self, entry: str) -> list[str]:
        return [step["step"] for step in self.inbox.ok("entry", "show", entry)["receipts"]]

    def send_all(self, entry: str) -> None:
        """Run senders until the alert of an entry was sent."""

        def is_sent() -> bool:
            self.inbox.ok("channel", "run", "--until-empty")
            return "alert_sent" in self.steps(entry)

        eventually(is_sent)


@pytest.fixture
def channel_store(tmp_path: Path) -> StoreWithChannel:
    return StoreWithChannel(tmp_path)


@pytest.fixture
def receiver() -> Iterator[WebReceiver]:
    with web_receiver() as made:
        yield made


def test_a_sender_that_is_killed_while_it_sends_leaves_no_process_and_loses_nothing(
    channel_store: StoreWithChannel, receiver: WebReceiver
) -> None:
    channel_store.webhook(receiver)
    receiver.released.clear()
    sender = channel_store.inbox.start("channel", "run", "--json")
    entry = channel_store.ask()
    receiver.wait_for(1)
    children = _descendants(sender.process.pid)
    assert children
    os.kill(sender.process.pid, signal.SIGKILL)
    sender.finish()
    eventually(lambda: not any(map(is_alive, children)))
    receiver.released.set()
    assert "alert_sent" not in channel_store.steps(entry)
    channel_store.send_all(entry)
    assert len({one.id for one in receiver.posted}) == 1
    assert len(receiver.posted) == 2


def test_a_sender_that_is_killed_before_it_took_anything_loses_nothing(channel_store: StoreWithChannel, receiver: WebReceiver) -> None:
    channel_store.webhook(receiver)
    sender = channel_store.inbox.start("channel", "run", "--json").sleeping()
    os.kill(sender.process.pid, signal.SIGKILL)
    sender.finish()
    entry = channel_store.ask()
    channel_store.send_all(entry)
    assert len(receiver.posted) == 1


def test_a_process_that_is_killed_after_it_sent_sends_again_with_the_same_id(channel_store: StoreWithChannel) -> None:
    """The command kills the process that started it, once: the message is out, and nothing of that is recorded."""
    told = channel_store.folder / "told"
    channel_store.add("command", f'echo "$INBOX_ALERT_ID" >> {told}; test "$(wc -l < {told})" -gt 1 || kill -9 $PPID')
    entry = channel_store.ask()
    channel_store.send_all(entry)
    lines = told.read_text().split()
    assert (len(lines), len(set(lines))) == (2, 1)


def test_a_sender_that_is_killed_before_it_acks_does_not_send_again(channel_store: StoreWithChannel, receiver: WebReceiver) -> None:
    """A sender took the mail, its process sent and recorded that, and the sender never acked."""
    session = channel_store.webhook(receiver)
    entry = channel_store.ask()
    with closing(open_store(str(channel_store.inbox.db))) as store:
        queueing.queue_due_alerts(store)
    message = channel_store.mailbox.ok("dequeue", "--session", session)["message"]["msg_id"]
    environment = channel_store.inbox.environment(INBOX_DB=str(channel_store.inbox.db), MAILBOX_SESSION=session, MAILBOX_MSG_ID=message)
    sent = subprocess.run(
        ["/bin/sh", "-c", SEND_COMMAND], env={**environment, "MAILBOX_FROM": f"{session}:{message}"}, timeout=LIMIT, check=False
    )
    assert sent.returncode == 0
    assert "alert_sent" in channel_store.steps(entry)
    eventually(lambda: channel_store.inbox.ok("channel", "run", "--until-empty")["acked"] == 1)
    assert len(receiver.posted) == 1


def _descendants(pid: int) -> list[int]:
    """Return the processes below one, by /proc."""
    found = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    for thread in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (thread / "children").read_text().split() if int(child) not in found]
    return found + [below for child in found for below in _descendants(child)]
