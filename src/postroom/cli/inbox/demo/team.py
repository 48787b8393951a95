"""The team of `inbox serve --demo`: real processes on a store of their own, so that a newcomer sees entries arrive.

An analyst writes the report of a week in her workspace, asks whether to publish it, corrects it, and proposes the mail to the readers. A
builder puts it on the site, blocks on a question, and asks before he deletes the old page. A backup job leaves notices. A courier sends
messages to mailboxes. A narrator prints what arrives.
A question waits for the person without a time limit. When the story is told, the team rests: nothing repeats.
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
from postroom.core.records import Event
from postroom.core.text import shell_quote
from postroom.processes.interpreter import NEUTRAL_FOLDER, isolated_command, short_environment
from postroom.processes.process_group import spawn_group
from postroom.store.location import state_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Store

PACE_SECONDS = 4.0  # seconds between steps, so that a person can follow
DELIVERIES = 12
REPORT_NAME = "week-01.md"
NIGHTS = ("12 GB in 41 s, nothing failed.", "12 GB in 43 s, nothing failed.")
REPORT = """# Rates, week 1

The committee **held**. Three things stand out:

| what | before | now |
|---|--:|--:|
| policy rate | 4.25 | 4.25 |
| ten years | 4.31 | {yield_} |

```python
def carry(long: float, short: float) -> float:
    return long - short
```
"""
MAIL = """Dear readers,

the rates of week 1 are out. The committee held, and the ten years closed at 4.28.

The Rates desk"""


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
                command = isolated_command("postroom.cli.inbox.demo.team", role, self.location, long_lived=True)
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
    """Push the report of a week, ask whether to publish it, do as the person says, and correct a number. All of it is one row."""
    folder = os.path.join(os.path.dirname(store.location), "rates")
    os.makedirs(folder, exist_ok=True)
    workspace = people.add_workspace(store, folder, label="Rates desk", agent="analyst").workspace.workspace_id
    sleep(PACE_SECONDS / 2)
    _write_report(folder, "4.31")
    drafted = "Week 1 is drafted. The table is new; is it what you wanted?"
    matter = people.push(store, workspace, docs=[REPORT_NAME], title="Rates, week 1", comments=drafted).id
    sleep(PACE_SECONDS)
    asked = people.ask(store, workspace_id=workspace, question="Publish week 1?", choices=("Publish", "Hold back"), entry_id=matter)
    answer = people.wait_answer(store, asked.id).answer
    outcome = "It goes out at noon." if answer == "Publish" else "It stays here. Write what you would change."
    people.push(store, workspace, comments=f"Understood: *{answer}*. {outcome}", entry_id=matter)
    sleep(PACE_SECONDS)
    _write_report(folder, "4.28")  # the page shows what changed since the push
    people.push(store, workspace, comments="The ten years closed at **4.28**: I corrected the table.", entry_id=matter)
    if answer == "Publish":
        _send_mail(store, workspace, matter)


def _send_mail(store: Store, workspace: str, matter: str) -> None:
    """Propose the mail to the readers, and say what was decided."""
    sleep(PACE_SECONDS)
    question = "Shall this go to our 212 readers? Change what you like."
    asked = people.ask(store, workspace_id=workspace, question=question, proposal={"text": MAIL}, entry_id=matter)
    decision = people.wait_answer(store, asked.id).decision or {}
    outcomes = {"approve": "The mail is out.", "edit": "The mail is out, as you wrote it."}
    outcome = outcomes.get(decision.get("type", ""), "No mail, then.")
    people.push(store, workspace, comments=outcome, entry_id=matter)


def _write_report(folder: str, ten_years: str) -> None:
    with open(os.path.join(folder, REPORT_NAME), "w", encoding="utf-8") as report:
        report.write(REPORT.format(yield_=ten_years))


def run_builder(store: Store) -> None:
    """Take the analyst's thread, block it on two questions for the person, and finish it as they answer."""
    work.send(store, sender="analyst", to="builder", subject="Put the weekly report on the site", run_id="week-1")
    claim = work.wait_take(store, agent="builder")
    assert claim is not None
    thread, token = claim.thread.thread_id, claim.lease.lease_token
    sleep(PACE_SECONDS)
    work.update(store, thread, agent="builder", summary="The page is there, the chart is missing", lease_token=token)
    sleep(PACE_SECONDS)
    question = "The chart has 4 MB as PNG and 60 KB as SVG, which old mail programs do not show. Which one?"
    chart = _ask_in_thread(store, thread, token, question, '{"choices": ["As PNG", "As SVG"]}')
    sleep(PACE_SECONDS)
    terms = '{"choices": ["Delete it", "Leave it"], "dangerous": ["Delete it"]}'
    old = _ask_in_thread(store, thread, token, "The page of last week is still there, and 31 sites link to it. Delete it?", terms)
    sleep(PACE_SECONDS / 2)
    kept = "the old page is deleted" if old == "Delete it" else "the old page stays"
    work.done(store, thread, agent="builder", summary=f"It is on the site with the chart ({chart}), and {kept}", lease_token=token)


def _ask_in_thread(store: Store, thread: str, token: str, question: str, terms: str) -> str:
    """Block a thread on a question for the person, and return the answer."""
    work.update(store, thread, agent="builder", status="blocked", summary=question, payload_json=terms, to="user", lease_token=token)
    reply = work.wait_reply(store, thread, agent="builder", lease_token=token)
    return reply.message.summary if reply.message is not None else ""


def run_backup(store: Store) -> None:
    """Leave a notice for each of two nights, as a job without a workspace."""
    for night, text in enumerate(NIGHTS, 1):
        people.notify(store, sender="backup", text=f"Night {night}: {text}")
        sleep(PACE_SECONDS * 10)


def run_courier(store: Store) -> None:
    """Send messages to mailboxes and push one event each round to a watched queue. Messages for the printer become dead letters."""
    folder = os.path.join(os.path.dirname(store.location), "deliveries")
    queues.init_queue(folder)
    queue = queues.open_queue(folder)
    queues.subscribe(queue, "ledger", handler="cat > /dev/null")
    people.add_queue(store, queue.path, label="Deliveries")
    mail.set_policy(store, "printer", max_retries=0)
    for number in range(1, DELIVERIES):
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
    if event.event_type.startswith("entry.") and event.message_id:
        return _describe_entry_event(store, event, event.message_id)
    if event.event_type in ("thread.created", "thread.done"):
        return f"{event.source}: {event.summary}"
    return ""


def _describe_entry_event(store: Store, event: Event, entry_id: str) -> str:
    detail = people.show_entry(store, entry_id)
    entry = next((part for part in detail.parts if part.id == entry_id), detail.entry)
    if event.event_type == "entry.created":
        kind = {"question": "asks", "notice": "notes"}.get(entry.kind, "shows")
        command = f"inbox entry reply {terminal.short_id(entry.id)} --db {shell_quote(store.location)} --body TEXT"
        answer = f"  (answer: {command})" if entry.kind == "question" else ""
        words = " - ".join(filter(None, (", ".join(entry.file_names), entry.comments)))
        return f"{entry.workspace_label} {kind}: {words}{answer}"
    if event.event_type == "entry.answered" and entry.ask is not None:
        return f"{event.source} answers: {entry.ask.answer}"
    if event.event_type == "entry.replied" and entry.kind != "question":  # the answer to a question is an event of its own
        return f"{event.source} replies: {detail.replies[-1].body}"
    return ""


ROLES = {"narrator": run_narrator, "analyst": run_analyst, "builder": run_builder, "backup": run_backup, "courier": run_courier}

if __name__ == "__main__":
    ROLES[sys.argv[1]](postroom.open(sys.argv[2]))
