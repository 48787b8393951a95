"""The team of `inbox serve --demo`: real processes on a store of their own, so that a newcomer sees entries arrive.

An analyst writes a report in her workspace and asks whether to publish it. A builder works on threads and blocks on a question.
A backup job leaves notices. A courier sends messages to mailboxes. A narrator prints what arrives.
A question waits for the person without a time limit.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from time import sleep

import postroom
from postroom import mail, people, queues, work
from postroom.cli.framework import terminal
from postroom.cli.framework.output import write_all
from postroom.core.records.work import Event
from postroom.core.text import shell_quote
from postroom.processes.interpreter import NEUTRAL_FOLDER, isolated_command, short_environment
from postroom.processes.process_group import spawn_group
from postroom.store.location import state_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Store

PACE_SECONDS = 4.0  # seconds between steps, so that a person can follow
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
    """The processes of the team, and the temporary folder with their store."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="postroom-demo-")
        self.location = os.path.join(self.folder, "coord.db")
        postroom.init(self.location)
        self._actors: list[tuple[int, int]] = []

    def start(self) -> None:
        """Start one process for each role. Each is killed when this process ends, even by SIGKILL."""
        with open(os.devnull, "rb") as empty_input:
            for role in ROLES:
                command = isolated_command("postroom.cli.inbox.demo.team", role, self.location)
                line = f"cd {NEUTRAL_FOLDER} && exec {' '.join(map(shell_quote, command))}"
                self._actors.append(spawn_group(line, short_environment(), (empty_input.fileno(), 1, 2)))

    def stop(self) -> None:
        """Kill all processes and delete the folder."""
        for process, leash in self._actors:
            os.close(leash)  # closed without a line written to it: the watchdog kills the whole process group
            os.waitpid(process, 0)
        for folder in (self.folder, state_folder(self.location)):
            shutil.rmtree(folder, ignore_errors=True)


def run_analyst(store: Store) -> None:
    """Push a report each round, ask whether to publish it, and wait for the answer."""
    folder = os.path.join(os.path.dirname(store.location), "rates")
    os.makedirs(folder, exist_ok=True)
    workspace = people.add_workspace(store, folder, label="Rates desk", agent="analyst").workspace.workspace_id
    for week in range(1, ROUNDS):
        sleep(PACE_SECONDS / 2)
        name = f"week-{week:02}.md"
        with open(os.path.join(folder, name), "w", encoding="utf-8") as report:
            report.write(REPORT.format(week=week, yield_=4.3 + week / 100))
        people.push(store, workspace, docs=[name], comments=f"Week {week} is drafted. The table is new; is it what you wanted?")
        sleep(PACE_SECONDS)
        asked = people.ask(store, workspace_id=workspace, question=f"Publish week {week}?", choices=("Publish", "Hold back"))
        answer = people.wait_answer(store, asked.id)
        people.push(store, workspace, comments=f"Understood: *{answer.answer}*. I go on with week {week + 1}.")
        sleep(PACE_SECONDS * 2)


def run_builder(store: Store) -> None:
    """Take one thread each round, and block it on a question for the person."""
    for number in range(1, ROUNDS):
        work.send(store, sender="user", to="builder", subject=f"Release {number}: fix the login page", run_id="demo")
        claim = work.wait_take(store, agent="builder")
        assert claim is not None
        thread, token = claim.thread.thread_id, claim.lease.lease_token
        sleep(PACE_SECONDS)
        work.update(store, thread, agent="builder", summary="The form is there", lease_token=token)
        sleep(PACE_SECONDS)
        choices = '{"choices": ["Email and password", "SSO"]}'
        question = "Email and password, or SSO?"
        work.update(store, thread, agent="builder", status="blocked", summary=question, payload_json=choices, lease_token=token)
        reply = work.wait_reply(store, thread, agent="builder", lease_token=token)
        sleep(PACE_SECONDS / 2)
        answer = reply.message.summary if reply.message is not None else ""
        work.done(store, thread, agent="builder", summary=f"Done, with: {answer}", lease_token=token)
        sleep(PACE_SECONDS * 2)


def run_backup(store: Store) -> None:
    """Leave a notice each round, as a job without a workspace."""
    for night in range(1, ROUNDS):
        people.notify(store, sender="backup", text=f"Night {night}: 12 GB in 41 s, nothing failed.")
        sleep(PACE_SECONDS * 10)


def run_courier(store: Store) -> None:
    """Send messages to mailboxes and push one event each round to a watched queue. Messages for the printer become dead letters."""
    folder = os.path.join(os.path.dirname(store.location), "deliveries")
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
        sleep(PACE_SECONDS)


def run_narrator(store: Store) -> None:
    """Print each event of the store as it arrives."""
    cursor = 0
    with store.watch() as watcher:
        while True:
            with store.read() as tx:
                events = tx.fetch_all(tx.sql.events_after, after=cursor, limit=500)
            for event in events:
                cursor = event.event_id
                text = _describe_event(store, event)
                if text:
                    write_all(1, f"  {terminal.colour_text('dim', event.created_at[11:19])}  {terminal.one_line(text)}\n")
            watcher.wait(None)


def _describe_event(store: Store, event: Event) -> str:
    """Return one line about an event, or an empty text for an event that is not printed."""
    if event.event_type == "entry.created":
        entry = people.show_entry(store, event.message_id or "").entry
        docs = ", ".join(doc["path"] for doc in entry.docs)
        kind = {"question": "asks", "notice": "notes"}.get(entry.kind, "shows")
        answer = f"  (answer: inbox entry reply {entry.id} --db {shell_quote(store.location)} --body TEXT)" if entry.ask else ""
        return f"{entry.workspace_label} {kind}: {docs}{' - ' if docs and entry.comments else ''}{entry.comments}{answer}"
    if event.event_type in ("entry.answered", "entry.replied"):
        return f"{event.source} {event.event_type[6:]} it"
    if event.event_type in ("thread.created", "thread.done"):
        return f"{event.source}: {event.summary}"
    return ""


ROLES = {"narrator": run_narrator, "analyst": run_analyst, "builder": run_builder, "backup": run_backup, "courier": run_courier}

if __name__ == "__main__":
    ROLES[sys.argv[1]](postroom.open(sys.argv[2]))
