"""`inbox demo`: a leader and two workers as real processes, told as it happens.

Ada asks a question and sleeps until the leader answers. Bo dies in the middle of his work, and Ada takes it over. What Bo
says afterwards is refused. The narrator only reads the event log, as anyone could with `inbox watch`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from time import monotonic, sleep

import postroom
from postroom import work
from postroom.cli import human
from postroom.cli.envelope import Outcome, write
from postroom.core.clock import instant
from postroom.core.errors import InvalidInput, Refusal, StorageFailure
from postroom.core.jsontext import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.parsing import Arguments
    from postroom.core.records import Event
    from postroom.store.port import Store

PACE = 1.0  # seconds between steps, so that a person can follow
BO_LEASE = 2.0
BOUND = 18.0
_narration = 1
LOGIN, TABLE, NOTES = "Add the login page", "Move the users table", "Write the release notes"


def demo(args: Arguments) -> Outcome:
    global _narration  # noqa: PLW0603 - one story a process
    _narration = 2 if args.json else 1
    store = _fresh(args.db)
    _say(f"A fresh store: {store.place}\nThree processes start: a leader, and the workers ada and bo. No server, only that file.\n\n")
    actors = [_start(role, store.place) for role in ("leader", "ada", "bo")]
    try:
        _narrate(store, bo=actors[2])
    finally:
        for actor in actors:
            actor.kill()
            actor.wait()
    _say("Everything was said through one file, and all of it is still there:\n")
    _say(human.picture("threads", work.list_threads(store).plain()))
    _say(f"\nLook around:  export INBOX_DB={store.place}\n              inbox list, inbox show --thread ID, inbox --help\n")
    return Outcome({"db": store.place, **work.list_threads(store).plain()})


def _fresh(named: str | None) -> Store:
    place = named or os.path.join(tempfile.mkdtemp(prefix="postroom-demo-"), "coord.db")
    if not postroom.init(place):
        raise InvalidInput(f"{place} is there already", field="db", hint="The demonstration wants a store of its own: leave --db out.")
    return postroom.open(place)


def _start(role: str, place: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "postroom.cli.demo", role, place])


def _narrate(store: Store, bo: subprocess.Popen[bytes]) -> None:
    """Tell every event, kill Bo when he is in the middle, and end when all three threads have."""
    began, cursor, ended, asked = monotonic(), 0, 0, 0
    while ended < 3:
        heard = work.watch(store, after_event=cursor, timeout_seconds=BOUND)
        cursor = heard.next_event_id
        for event in heard.events:
            _tell(event)
            ended += event.event_type == "thread.done"
            asked = instant(event.created_at) if _status(event) == "blocked" and event.event_type == "thread.updated" else asked
            if event.source == "bo" and event.event_type == "thread.updated":
                bo.kill()
                bo.wait()
                _comment(f"kill -9 of bo, in the middle of it. Nobody cleans up; his lease of {BO_LEASE:.0f} s just runs out.")
            if event.source == "ada" and loads(event.payload_json).get("replaced") == "bo":
                _comment("bo's lease had run out, so his thread was offered to ada. Now bo's ghost tries to finish it:")
                _ghost(store, event.thread_id)
            if event.summary.startswith("Awake"):
                _comment("ada was asleep in `wait-reply`, using no CPU.")
        if monotonic() - began > BOUND:
            raise StorageFailure("the demonstration did not end in time", hint="The machine may be overloaded: try again.")
    _say("\n")


def _tell(event: Event) -> None:
    what = event.event_type.partition(".")[2]
    status = _status(event)
    says = "blocked, asks" if what == "updated" and status == "blocked" else what
    clock = event.created_at[11:23]
    write(
        _narration, f"  {human.paint('dim', clock)}  {human.paint('bold', f'{event.source:6}')}  {says:13}  {human.line(event.summary)}\n"
    )


def _status(event: Event) -> str:
    return str(loads(event.payload_json)["status"])


def _ghost(store: Store, thread_id: str) -> None:
    try:
        work.done(store, thread_id, agent="bo", summary="all moved")
    except Refusal as refusal:
        _comment(f"refused with exit 20: {refusal}")


def _comment(text: str) -> None:
    write(_narration, f"  {'':12}  {human.paint('dim', '↳ ' + text)}\n")


def _say(text: str) -> None:
    write(_narration, text)


# The actors, each a process of its own.


def leader(store: Store) -> None:
    """Hands out work, and answers whatever is asked."""
    for to, subject, priority in (("ada", LOGIN, "high"), ("bo", TABLE, "normal"), ("ada", NOTES, "low")):
        work.send(store, sender="leader", to=to, subject=subject, priority=priority, run_id="demo")
        sleep(PACE / 2)
    cursor = 0
    while True:
        heard = work.watch(store, agent="leader", statuses=("blocked",), after_event=cursor)
        cursor = heard.next_event_id
        for event in heard.events:
            sleep(PACE * 2)
            work.reply(store, event.thread_id, sender="leader", summary="Email and password for the first version.")


def ada(store: Store) -> None:
    """Works through what there is, and asks when she does not know."""
    while True:
        claim = work.wait_take(store, agent="ada")
        assert claim is not None
        thread, token = claim.thread, claim.lease.lease_token
        sleep(PACE)
        if thread.subject == LOGIN:
            work.update(store, thread.thread_id, agent="ada", status="blocked", summary="Email and password, or SSO?", lease_token=token)
            answer = work.wait_reply(store, thread.thread_id, agent="ada", lease_token=token)
            assert answer.message is not None
            slept = (_now(store) - instant(answer.message.created_at)) / 1000
            awake = f"Awake {slept:.1f} ms after the answer was written"
            work.update(store, thread.thread_id, agent="ada", summary=awake, lease_token=token)
            sleep(PACE)
        work.done(store, thread.thread_id, agent="ada", summary=f"{thread.subject}: done", lease_token=token)


def bo(store: Store) -> None:
    """Starts, reports, and is killed before he ends."""
    claim = work.wait_take(store, agent="bo", lease_seconds=BO_LEASE)
    assert claim is not None
    sleep(PACE)
    work.update(store, claim.thread.thread_id, agent="bo", summary="Half of the rows are moved")
    sleep(60)


def _now(store: Store) -> int:
    with store.read() as tx:
        return tx.now()


if __name__ == "__main__":
    {"leader": leader, "ada": ada, "bo": bo}[sys.argv[1]](postroom.open(sys.argv[2]))
