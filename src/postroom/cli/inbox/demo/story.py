"""`inbox demo`: a leader and two workers as real processes, with a narrator that prints their events.

Ada asks a question and sleeps until the leader answers. Bo is killed in the middle of his work, and Ada takes it over. A late
update by Bo is refused. The narrator only reads the event log, as `inbox watch` does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from time import monotonic, sleep

import postroom
from postroom import work
from postroom._fastpath.json_text import loads
from postroom.cli.framework import terminal
from postroom.cli.framework.output import Outcome, write_all
from postroom.cli.inbox import views as work_views
from postroom.cli.inbox.waiting import interruptible
from postroom.core.clock import parse_stamp
from postroom.core.errors import InvalidInput, NoStore, Refusal, StorageFailure
from postroom.core.text import shell_quote
from postroom.processes.interpreter import NEUTRAL_FOLDER, isolated_command, short_environment, store_environment
from postroom.store.location import shown_location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.framework.parser import Arguments
    from postroom.core.records import Event
    from postroom.store.interface import Store

PACE_SECONDS = 1.0  # seconds between steps, so that a person can follow
BO_LEASE_SECONDS = 2.0
MAX_DEMO_SECONDS = 18.0
_narration_descriptor = 1
LOGIN, TABLE, NOTES = "Add the login page", "Move the users table", "Write the release notes"


def handle_demo(args: Arguments) -> Outcome:
    global _narration_descriptor  # noqa: PLW0603 - one demonstration per process
    _narration_descriptor = 2 if args.json else 1
    store = _create_store(args.db)
    try:
        with interruptible():
            return _tell_story(store, removal="" if args.db else f"Remove it:    rm -r {shell_quote(os.path.dirname(store.location))}\n")
    except BaseException:  # interrupted, or it went wrong: nobody looks around in it
        store.close()
        if args.db is None:
            shutil.rmtree(os.path.dirname(store.location), ignore_errors=True)
        raise


def _tell_story(store: Store, *, removal: str) -> Outcome:
    shown = shown_location(store.location)
    _print_text(f"A fresh store: {shown}\nThree processes start: a leader, and the workers ada and bo. No server, only that file.\n\n")
    actors = [_start_actor(role, store.location) for role in ("leader", "ada", "bo")]
    try:
        _narrate_events(store, bo=actors[2])
    finally:
        for actor in actors:
            actor.kill()
            actor.wait()
    _print_text("Everything was said through one file, and all of it is still there:\n")
    _print_text(work_views.render_view("threads", work.list_threads(store).to_json()))
    _print_text(f"\nLook around:  export INBOX_DB={shown}\n              inbox list, inbox show ID, inbox help\n{removal}")
    return Outcome({"db": shown, **work.list_threads(store).to_json()})


def _create_store(db: str | None) -> Store:
    location = db or os.path.join(tempfile.mkdtemp(prefix="postroom-demo-"), "coord.db")
    try:
        postroom.open(location).close()
    except NoStore:
        postroom.init(location)
        return postroom.open(location)
    hint = "The demonstration uses a store of its own: leave --db out."
    raise InvalidInput(f"{shown_location(location)} exists already", field="db", hint=hint)


def _start_actor(role: str, location: str) -> subprocess.Popen[bytes]:
    environment = {**short_environment(), **store_environment(location)}
    return subprocess.Popen(isolated_command("postroom.cli.inbox.demo.story", role), cwd=NEUTRAL_FOLDER, env=environment)


def _narrate_events(store: Store, bo: subprocess.Popen[bytes]) -> None:
    """Print every event, kill Bo in the middle of his work, and return when all three threads are done."""
    deadline = monotonic() + MAX_DEMO_SECONDS
    cursor = 0
    ended = 0
    while ended < 3:
        activity = work.watch(store, after_event=cursor, timeout_seconds=MAX_DEMO_SECONDS)
        cursor = activity.next_event_id
        for event in activity.events:
            _print_event(event)
            ended += event.event_type == "thread.done"
            if event.source == "bo" and event.event_type == "thread.updated":
                bo.kill()
                bo.wait()
                _print_comment(
                    f"kill -9 of bo, in the middle of it. Nobody cleans up; his lease of {BO_LEASE_SECONDS:.0f} s just runs out."
                )
            if event.source == "ada" and loads(event.payload_json).get("replaced") == "bo":
                _print_comment("bo's lease had run out, so his thread was offered to ada. Now bo's ghost tries to finish it:")
                _finish_as_bo(store, event.thread_id)
            if event.summary.startswith("Awake"):
                _print_comment("ada was asleep in `wait-reply`, using no CPU.")
        if monotonic() > deadline:
            raise StorageFailure("the demonstration did not end in time", hint="The machine may be overloaded: try again.")
    _print_text("\n")


def _print_event(event: Event) -> None:
    action = event.event_type.partition(".")[2]
    if action == "updated" and _event_status(event) == "blocked":
        action = "blocked, asks"
    clock = event.created_at[11:23]
    summary = terminal.one_line(event.summary)
    source = terminal.colour_text("bold", f"{event.source:6}")
    _print_text(f"  {terminal.colour_text('dim', clock)}  {source}  {action:13}  {summary}\n")


def _event_status(event: Event) -> str:
    return str(loads(event.payload_json)["status"])


def _finish_as_bo(store: Store, thread_id: str) -> None:
    """Try to finish the thread that Bo has lost, and print the refusal."""
    try:
        work.done(store, thread_id, agent="bo", summary="all moved")
    except Refusal as refusal:
        _print_comment(f"refused with exit 20: {refusal}")


def _print_comment(text: str) -> None:
    _print_text(f"  {'':12}  {terminal.colour_text('dim', '↳ ' + text)}\n")


def _print_text(text: str) -> None:
    write_all(_narration_descriptor, text)


# The actors. Each runs in a process of its own.


def run_leader(store: Store) -> None:
    """Send three threads, then answer every question."""
    for to, subject, priority in (("ada", LOGIN, "high"), ("bo", TABLE, "normal"), ("ada", NOTES, "low")):
        work.send(store, sender="leader", to=to, subject=subject, priority=priority, run_id="demo")
        sleep(PACE_SECONDS / 2)
    cursor = 0
    while True:
        activity = work.watch(store, agent="leader", statuses=("blocked",), after_event=cursor)
        cursor = activity.next_event_id
        for event in activity.events:
            sleep(PACE_SECONDS * 2)
            work.reply(store, event.thread_id, sender="leader", summary="Email and password for the first version.")


def run_ada(store: Store) -> None:
    """Take and finish threads, and ask a question in the first one."""
    while True:
        claim = work.wait_take(store, agent="ada")
        assert claim is not None
        thread, token = claim.thread, claim.lease.lease_token
        sleep(PACE_SECONDS)
        if thread.subject == LOGIN:
            work.update(store, thread.thread_id, agent="ada", status="blocked", summary="Email and password, or SSO?", lease_token=token)
            answer = work.wait_reply(store, thread.thread_id, agent="ada", lease_token=token)
            assert answer.message is not None
            delay_ms = (_store_time(store) - parse_stamp(answer.message.created_at)) / 1000
            awake = f"Awake {delay_ms:.1f} ms after the answer was written"
            work.update(store, thread.thread_id, agent="ada", summary=awake, lease_token=token)
            sleep(PACE_SECONDS)
        work.done(store, thread.thread_id, agent="ada", summary=f"{thread.subject}: done", lease_token=token)


def run_bo(store: Store) -> None:
    """Take a thread, report progress once, and wait to be killed."""
    claim = work.wait_take(store, agent="bo", lease_seconds=BO_LEASE_SECONDS)
    assert claim is not None
    sleep(PACE_SECONDS)
    work.update(store, claim.thread.thread_id, agent="bo", summary="Half of the rows are moved")
    sleep(60)


def _store_time(store: Store) -> int:
    with store.read() as tx:
        return tx.now()


if __name__ == "__main__":
    {"leader": run_leader, "ada": run_ada, "bo": run_bo}[sys.argv[1]](postroom.open(os.environ["INBOX_DB"]))
