"""The team of `inbox serve --demo`: real processes on a store of their own, so that a newcomer sees things arrive.

An analyst writes a report in her workspace and asks whether to publish it; a builder works on threads and is blocked by a question;
a nightly job leaves notices; a courier brings messages to mailboxes; a narrator tells what arrives.
Each waits for the person, as long as it takes.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from time import sleep

import postroom
from postroom import mail, people, queues, work
from postroom.cli import human
from postroom.cli.envelope import write
from postroom.core.records import Event
from postroom.core.words import quoted
from postroom.leash import spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.port import Store

PACE = 4.0  # seconds between steps, so that a person can follow
ROUNDS = 50
REPORT = """# Rates, week {week}

The committee **held**. Three things stand out:

| what | before | now |
|---|--:|--:|
| policy rate | 4.25 | 4.25 |
| ten years | 4.31 | {yield_:.2f} |

```python
def carry(long: float, short: float) -> float:
    return long - short
```
"""


class Team:
    """The processes, and the folder that all of it lives in."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="postroom-demo-")
        self.place = os.path.join(self.folder, "coord.db")
        postroom.init(self.place)
        self._actors: list[tuple[int, int]] = []

    def start(self) -> None:
        """Each dies with us, however that comes."""
        with open(os.devnull, "rb") as nothing:
            for role in ROLES:
                line = " ".join(map(quoted, (sys.executable, "-m", "postroom.cli.team", role, self.place)))
                self._actors.append(spawn(line, dict(os.environ), (nothing.fileno(), 1, 2)))

    def stop(self) -> None:
        for process, leash in self._actors:
            os.close(leash)  # without a word: the whole group goes
            os.waitpid(process, 0)
        shutil.rmtree(self.folder, ignore_errors=True)


def analyst(store: Store) -> None:
    """Pushes a report, asks about it, and does as she is told."""
    folder = os.path.join(os.path.dirname(store.place), "rates")
    os.makedirs(folder, exist_ok=True)
    workspace = people.add_workspace(store, folder, label="Rates desk", agent="analyst").workspace.workspace_id
    for week in range(1, ROUNDS):
        sleep(PACE / 2)
        name = f"week-{week:02}.md"
        with open(os.path.join(folder, name), "w", encoding="utf-8") as report:
            report.write(REPORT.format(week=week, yield_=4.3 + week / 100))
        people.push(store, workspace, docs=[name], comments=f"Week {week} is drafted. The table is new; is it what you wanted?")
        sleep(PACE)
        asked = people.ask(store, workspace_id=workspace, question=f"Publish week {week}?", choices=("Publish", "Hold back"))
        answer = people.wait_answer(store, asked.id)
        people.push(store, workspace, comments=f"Understood: *{answer.answer}*. I go on with week {week + 1}.")
        sleep(PACE * 2)


def builder(store: Store) -> None:
    """Takes threads, and is blocked by what only a person knows."""
    for number in range(1, ROUNDS):
        work.send(store, sender="user", to="builder", subject=f"Release {number}: fix the login page", run_id="demo")
        claim = work.wait_take(store, agent="builder")
        assert claim is not None
        thread, token = claim.thread.thread_id, claim.lease.lease_token
        sleep(PACE)
        work.update(store, thread, agent="builder", summary="The form is there", lease_token=token)
        sleep(PACE)
        choices = '{"choices": ["Email and password", "SSO"]}'
        question = "Email and password, or SSO?"
        work.update(store, thread, agent="builder", status="blocked", summary=question, payload_json=choices, lease_token=token)
        reply = work.wait_reply(store, thread, agent="builder", lease_token=token)
        sleep(PACE / 2)
        said = reply.message.summary if reply.message is not None else ""
        work.done(store, thread, agent="builder", summary=f"Done, with: {said}", lease_token=token)
        sleep(PACE * 2)


def backup(store: Store) -> None:
    """Nobody's workspace: a job that says what it did."""
    for night in range(1, ROUNDS):
        people.notify(store, sender="backup", text=f"Night {night}: 12 GB in 41 s, nothing failed.")
        sleep(PACE * 10)


def courier(store: Store) -> None:
    """Brings messages to mailboxes; those for the printer become dead letters. Each round is an event in a queue that is watched."""
    folder = os.path.join(os.path.dirname(store.place), "deliveries")
    queues.init_queue(folder)
    queue = queues.open_queue(folder)
    queues.subscribe(queue, "ledger", handler="cat > /dev/null")
    people.add_queue(store, queue.path, label="Deliveries")
    mail.set_policy(store, "printer", max_retries=0)
    for number in range(1, ROUNDS * 10):
        session = "printer" if number % 10 == 3 else "press"
        mail.enqueue(store, {"from": "courier", "to": session, "payload": f"Pages {number * 8 - 7} to {number * 8}"})
        for _ in range(2 if number % 4 else 0):
            taken = mail.dequeue(store, session)
            if taken is not None and session == "printer":
                mail.nack(store, session, taken.message.msg_id, "out of paper", delivery_token=taken.delivery_token)
            elif taken is not None:
                mail.ack(store, session, taken.message.msg_id, delivery_token=taken.delivery_token)
        queues.push(queue, source="self", type="record", content=f"round {number}")
        if number % 3 == 0:
            queues.ack(queue, "ledger", last_event_id=number)
        sleep(PACE)


def narrator(store: Store) -> None:
    """Tells on the terminal what arrives, as it does."""
    cursor = 0
    with store.watch() as bell:
        while True:
            with store.read() as tx:
                events = [Event(*row) for row in tx.all(tx.sql.events_after, after=cursor, limit=500)]
            for event in events:
                cursor = event.event_id
                said = _told(store, event)
                if said:
                    write(1, f"  {human.paint('dim', event.created_at[11:19])}  {human.line(said)}\n")
            bell.wait(None)


def _told(store: Store, event: Event) -> str:
    if event.event_type == "entry.created":
        entry = people.show_entry(store, event.message_id or "").entry
        docs = ", ".join(doc["path"] for doc in entry.docs)
        kind = {"question": "asks", "notice": "notes"}.get(entry.kind, "shows")
        answer = f"  (answer: inbox entry reply {entry.id} --db {quoted(store.place)} --body TEXT)" if entry.ask else ""
        return f"{entry.workspace_label} {kind}: {docs}{' - ' if docs and entry.comments else ''}{entry.comments}{answer}"
    if event.event_type in ("entry.answered", "entry.replied"):
        return f"{event.source} {event.event_type[6:]} it"
    if event.event_type in ("thread.created", "thread.done"):
        return f"{event.source}: {event.summary}"
    return ""


ROLES = {"narrator": narrator, "analyst": analyst, "builder": builder, "backup": backup, "courier": courier}

if __name__ == "__main__":
    ROLES[sys.argv[1]](postroom.open(sys.argv[2]))
