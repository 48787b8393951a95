"""A house in full use: what the pictures show, and what the tests of every view look at.

All of it is written through the library with a clock of its own, hour by hour, so that it looks as if it had happened.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from math import sin
from pathlib import Path
from typing import Any

import postroom
from postroom import mail, people, queues, work
from postroom.core import clock
from postroom.core.records.people import Entry, Workspace
from postroom.people.watched_queues import add_queue
from postroom.queues import notifier
from postroom.store.interface import Store
from postroom.store.postgres.engine import PostgresStore
from postroom.store.sqlite.engine import SqliteStore
from postroom.store.sqlite.queues.notifier_statements import RUN_INSERT
from postroom.tasks.conductor import Conductor

MINUTE = 60 * clock.MICROSECONDS_PER_SECOND
HOUR, DAY = 60, 24 * 60  # minutes
NOTIFIER = ".local/state/notifier"  # where it is for whoever has this folder as their home
RUN, NIGHT = "release-4.2", "nightly-0412"
CODEC = "May we ship 4.2 with the LGPL codec?"
LONG_LEASE = 3 * 3600.0

FOMC = """# FOMC preview

The committee meets on **Wednesday**. Futures price a *hold* at 78 %; we think that is too much.

| Meeting   | Priced | Ours | Spread |
|:----------|-------:|-----:|-------:|
| November  |  4.00  | 4.00 |   0 bp |
| December  |  3.91  | 3.75 |  16 bp |
| January   |  3.84  | 3.50 |  34 bp |
| March     |  3.71  | 3.25 |  46 bp |

## What would change our mind

- Core services above 0.4 % on the month
- A print of average hourly earnings above 0.5 %
- ~~The dot plot~~: it was wrong four times out of five

```python
def implied(price: float, days: int, left: int) -> float:
    \"\"\"The rate after the meeting, as a futures price implies it.\"\"\"
    average = 100 - price
    return (average * days - 4.00 * (days - left)) / left
```

> The path matters more than the level.
"""

INVOICES = '''"""Invoices: what a customer owes for a month."""

from decimal import ROUND_HALF_EVEN, Decimal

CENT = Decimal("0.01")


def total(lines: list[Line], rate: Decimal) -> Decimal:
    """Net and tax, rounded once, at the end."""
    net = sum((line.amount * line.price for line in lines), Decimal())
    return (net * (1 + rate)).quantize(CENT, ROUND_HALF_EVEN)
'''

PLAN = """# Migration plan

1. Copy the table `invoices` to `invoices_next`
2. Write to both for a week
3. Compare the totals of every night
4. Switch reads

Down time: **none**. Way back: switch reads again.
"""

NOTES = """# Notes for 4.2

- The importer reads Parquet
- Twice as fast on large files
- Fixed: a time zone was ignored when a report was scheduled
"""


ROUNDED = """The rounding is fixed: **once, at the end**. 14 invoices of October differ by a cent; these two are large:

| Invoice |    Was |     Is |
|---------|-------:|-------:|
| 2041    | 119.01 | 119.00 |
| 2077    |  84.52 |  84.53 |
"""

DRAFTED = """Drafted the FOMC piece. The table is new; the curve is from this morning.

Want a take on the **rates section** before I extend it.
"""


class SampleData:
    """The ids of the sample data, by name."""

    def __init__(self, folder: Path, now: int, place: str = "") -> None:
        self.folder = folder
        self.now = now
        self.instant = now
        self.db = folder / ".agents" / "coord.db"
        self.workspaces: dict[str, Workspace] = {}
        self.entries: dict[str, str] = {}
        self.threads: dict[str, str] = {}
        if not place and not self.db.exists():
            self.db.parent.mkdir(parents=True)
            postroom.init(str(self.db))
        engine = PostgresStore if place.startswith("postgresql:") else SqliteStore
        location = place or str(self.db)
        self._stores: dict[str, Store] = {door: engine(location, door=door, now=lambda: self.instant) for door in ("mcp", "web", "cli")}
        self.agents, self.person, self.cli = self._stores.values()

    def close(self) -> None:
        for store in self._stores.values():
            store.close()

    def at(self, ago: float) -> None:
        """So many minutes ago. Time never goes back."""
        instant = self.now - int(ago * MINUTE)
        assert instant >= self.instant or self.instant == self.now, "out of order"
        self.instant = instant

    def workspace(self, name: str, label: str, files: dict[str, str | bytes]) -> None:
        folder = self.folder / "work" / name
        for path, content in files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.workspaces[name] = people.add_workspace(self.agents, str(folder), label=label, agent=name).workspace

    def write(self, name: str, path: str, content: str) -> None:
        (self.folder / "work" / name / path).write_text(content)

    def push(self, name: str, comments: str, *docs: str, known: str = "", read: bool = False) -> str:
        entry = people.push(self.agents, self.workspaces[name].workspace_id, docs=docs, comments=comments)
        return self._kept(entry, known, read)

    def ask(self, name: str, question: str, *, known: str = "", read: bool = False, **more: Any) -> str:
        return self._kept(people.ask(self.agents, workspace_id=self.workspaces[name].workspace_id, question=question, **more), known, read)

    def _kept(self, entry: Entry, known: str, read: bool) -> str:
        if known:
            self.entries[known] = entry.id
        if read:
            people.mark_read(self.person, entry.id, person="user")
        return entry.id

    def reply(self, entry: str, body: str) -> None:
        people.reply(self.person, entry, person="user", body=body)

    def send(self, known: str, to: str, subject: str, body: str = "", *, run: str = RUN, sender: str = "captain", **more: Any) -> None:
        self.threads[known] = f"thr_{known}"  # as a picture shows it, always the same
        work.send(self.cli, sender=sender, to=to, subject=subject, body=body, run_id=run, thread_id=self.threads[known], **more)

    def claim(self, known: str, agent: str, seconds: float = LONG_LEASE) -> None:
        work.claim(self.cli, self.threads[known], agent=agent, lease_seconds=seconds)

    def update(self, known: str, agent: str, summary: str, **more: Any) -> None:
        work.update(self.cli, self.threads[known], agent=agent, summary=summary, **more)

    def done(self, known: str, agent: str, summary: str, body: str = "") -> None:
        work.done(self.cli, self.threads[known], agent=agent, summary=summary, body=body)


def furnish(folder: Path, now: int, place: str = "") -> SampleData:
    """The whole house, as it stands at `now`. Its store is at `place`, or in the folder."""
    scene = SampleData(folder, now, place)
    try:
        _workspaces(scene)
        _last_week(scene)
        _the_night(scene)
        _the_release(scene)
        _the_post(scene)
        _the_tasks(scene)
        _the_queues(scene)
    finally:
        scene.close()
    return scene


def _workspaces(scene: SampleData) -> None:
    scene.at(9 * DAY)
    scene.workspace(
        "thesis", "Macro thesis", {"research/fomc.md": FOMC, "figures/curve.png": picture(), "data/curve.bin": bytes(range(256)) * 40}
    )
    scene.workspace("billing", "Billing service", {"src/invoices.py": INVOICES, "PLAN.md": PLAN})
    scene.workspace("website", "Website relaunch", {"copy/home.md": "# Home\n\nLess, and better.\n", "copy/about.md": "# About us\n"})
    scene.workspace("butler", "Household", {"shopping.md": "# This week\n\n- Bread\n- Rice\n- Coffee\n"})


def _last_week(scene: SampleData) -> None:
    scene.at(6 * DAY + 130)
    first = scene.push("website", "The first sketch of the home page. Three sections, no carousel.", "copy/home.md", read=True)
    scene.at(6 * DAY + 90)
    scene.reply(first, "Good. Shorter headlines, please.")
    scene.at(6 * DAY + 80)
    people.read_messages(scene.agents, agent="website")
    scene.at(4 * DAY + 300)
    scene.push("butler", "The boiler is due for its yearly check in December. I can book the 3rd or the 10th.", read=True)
    scene.at(3 * DAY + 200)
    scene.push("thesis", "Literature list is complete: 42 papers, 11 of them read in full.", read=True)
    scene.at(2 * DAY + 400)
    answered = scene.ask("butler", "Book the boiler for the 3rd or the 10th?", choices=["The 3rd", "The 10th"])
    scene.at(2 * DAY + 380)
    scene.reply(answered, "The 10th")
    scene.at(2 * DAY + 379)
    people.read_messages(scene.agents, agent="butler")


def _the_night(scene: SampleData) -> None:
    scene.at(DAY + 200)
    scene.push(
        "website", "The page *About us* is written. It names nobody who asked not to be named.", "copy/about.md", known="gone", read=True
    )
    (scene.folder / "work" / "website" / "copy" / "about.md").unlink()
    scene.at(DAY + 150)
    plan = scene.push(
        "billing",
        "The migration plan. Step 3 is the one that I am least sure of: a week may be too short.",
        "PLAN.md",
        known="changed",
        read=True,
    )
    scene.at(DAY + 130)
    scene.reply(plan, "Make it two weeks, then go ahead.")
    scene.at(DAY + 128)
    people.read_messages(scene.agents, agent="billing")
    scene.write(
        "billing",
        "PLAN.md",
        PLAN.replace("for a week", "for two weeks").replace("Down time: **none**.", "Down time: **none**, measured twice."),
    )
    scene.at(DAY + 20)
    scene.send("dump", "archivist", "Dump the database", run=NIGHT, sender="cron")
    scene.send("index", "indexer", "Rebuild the search index", run=NIGHT, sender="cron")
    scene.at(DAY + 18)
    scene.claim("dump", "archivist")
    scene.claim("index", "indexer")
    scene.at(DAY + 2)
    scene.done("dump", "archivist", "12.4 GB, checked")
    scene.at(DAY)
    scene.done("index", "indexer", "3.1 million documents")
    scene.at(8 * HOUR)
    people.notify(scene.cli, sender="backup", text="Nightly backup done: **12.4 GB** in 16 minutes.")
    scene.at(7 * HOUR)
    people.notify(scene.cli, sender="certificates", text="The certificate of `mail.example` runs out in 12 days.")


def _the_release(scene: SampleData) -> None:
    """A release with a captain and four who work for it: every state that a thread can be in."""
    scene.at(141)
    scene.send("freeze", "builder", "Freeze the branch")
    scene.send("notes", "writer", "Write the release notes", "From the 31 merged changes since 4.1. For people, not for machines.")
    scene.send("suite", "tester", "Run the whole suite on three systems")
    scene.at(138)
    scene.claim("freeze", "builder")
    scene.at(130)
    scene.claim("notes", "writer")
    scene.at(122)
    scene.done("freeze", "builder", "Frozen at `3f2c1e`")
    scene.at(121)
    scene.claim("suite", "tester")
    scene.at(112)
    scene.update("notes", "writer", "14 of 31 changes are worth a line")
    scene.at(101)
    scene.send("installers", "builder", "Build the installers")
    scene.at(98)
    scene.claim("installers", "builder")
    scene.update("installers", "builder", "Linux is built")
    scene.at(96)
    scene.update(
        "notes",
        "writer",
        "What do we call the new importer?",
        status="blocked",
        to="user",
        payload_json='{"choices": ["Importer", "Intake", "Reader"]}',
    )
    people.sync(scene.cli)
    scene.at(81)
    work.reply(scene.person, scene.threads["notes"], sender="user", summary="Importer")
    people.mark_read(scene.person, people.history(scene.cli, limit=1).entries[0].id, person="user")
    scene.at(79)
    scene.update("notes", "writer", "Importer it is; 20 of 31")
    scene.at(70)
    scene.update("suite", "tester", "Two tests fail one time in fifty. Quarantine them?", status="blocked")
    scene.at(66)
    work.reply(scene.cli, scene.threads["suite"], sender="captain", summary="Yes, with an issue each")
    scene.at(65)
    scene.update("suite", "tester", "In quarantine; on with it")
    scene.at(60)
    scene.done("notes", "writer", "Release notes are written", NOTES)
    scene.at(58)
    scene.send("licences", "reviewer", "Check the licences of what we ship")
    scene.at(55)
    scene.claim("licences", "reviewer")
    scene.update("licences", "reviewer", "212 packages, 3 to look at")
    scene.at(52)
    work.fail(
        scene.cli,
        scene.threads["installers"],
        agent="builder",
        summary="The signing certificate has run out",
        body="`codesign` exits with 65.",
    )
    scene.at(50)
    scene.send("again", "builder", "Build the installers again", "With the certificate of this year.", priority="high")
    scene.at(48)
    scene.claim("again", "builder")
    scene.update("again", "builder", "Linux and macOS are built")
    scene.at(41)
    scene.done("suite", "tester", "4,812 passed on three systems, 2 in quarantine")
    scene.at(34)
    scene.push(
        "billing",
        ROUNDED,
        "src/invoices.py",
        known="code",
    )
    scene.at(30)
    scene.send("translate", "writer", "Translate the notes")
    scene.at(25)
    scene.send("announce", "writer", "Announce it on the mailing list")
    scene.at(22)
    scene.send("scout", "scout", "Look for prior art", run="", sender="user")
    scene.claim("scout", "scout", 60.0)
    scene.at(15)
    work.cancel(scene.cli, scene.threads["translate"], agent="captain", reason="Not for this release")
    scene.at(12)
    scene.update(
        "licences",
        "reviewer",
        CODEC,
        body="It is linked dynamically. Legal said yes in 2024, for another product.",
        status="blocked",
        to="user",
        payload_json='{"choices": ["Ship it", "Take it out", "Ask legal"]}',
    )
    people.sync(scene.cli)
    found = people.history(scene.cli, limit=1).entries[0]
    assert found.comments.startswith(CODEC)
    scene.entries["thread"] = found.id
    scene.at(8)
    scene.send("smoke", "tester", "Smoke test of the installers")
    scene.at(6)
    scene.ask(
        "website",
        "The new home page is ready. Publish it today?\n\nTraffic is lowest between **12:00** and **13:00**.",
        known="question",
        choices=["Publish at noon", "Tomorrow morning", "Not yet"],
        deadline_seconds=47 * 60,
        on_silence="default",
        default="Not yet",
        docs=["copy/home.md"],
    )
    scene.at(4)
    report = scene.push(
        "thesis",
        DRAFTED,
        "research/fomc.md",
        "figures/curve.png",
        "data/curve.bin",
        known="report",
    )
    scene.at(3.5)
    scene.reply(report, "Strong. Say why January is the widest.")
    scene.at(3)
    people.read_messages(scene.agents, agent="thesis")
    scene.claim("smoke", "tester")
    scene.at(2.5)
    scene.reply(report, "And cut the quotation at the end.")
    people.mark_unread(scene.person, scene.entries["code"], person="user")
    scene.at(1)
    scene.ask("butler", "Coffee is out. The usual two kilos?", known="plain")


def _the_post(scene: SampleData) -> None:
    """Mailboxes in every state, two of them with dead letters."""
    scene.at(0.9)
    mail.set_policy(scene.cli, "analyst", max_retries=0)
    for number, (payload, reason) in enumerate(
        (("Summarise ticket 4411", "no such table: tickets"), ("Summarise ticket 4419", "exit 137: killed, out of memory"))
    ):
        message = {"msg_id": f"orchestrator:{4400 + number}", "from": "orchestrator", "to": "analyst", "payload": payload}
        mail.enqueue(scene.cli, message)
        mail.dequeue(scene.cli, "analyst")
        mail.nack(scene.cli, "analyst", str(message["msg_id"]), reason)
    mail.set_policy(scene.cli, "crawler", inflight_timeout_secs=24 * 3600.0, base_backoff_secs=24 * 3600.0)
    for number, sender in enumerate(("scout", "scout", "captain", "orchestrator", "orchestrator")):
        mail.enqueue(scene.cli, {"from": sender, "to": "crawler", "payload": f"Fetch page {number}"})
    taken = [mail.dequeue(scene.cli, "crawler") for _ in range(3)]
    assert all(taken)
    first, second, _ = taken
    assert first is not None
    assert second is not None
    mail.ack(scene.cli, "crawler", first.message.msg_id)
    mail.nack(scene.cli, "crawler", second.message.msg_id, "503 from the site")
    for number in range(7):
        mail.enqueue(scene.cli, {"from": "orchestrator", "to": "reporter", "payload": f"Chapter {number}"})


def _the_tasks(scene: SampleData) -> None:
    """Tasks that wait, are worked on, completed and failed."""
    scene.at(0.8)
    conductor = Conductor(scene.cli)
    for agent, skill in (("orchestrator", "plan"), ("reviewer", "review"), ("translator", "translate")):
        conductor.register(agent, description=f"Can {skill}", skills=[skill])
    given = [
        conductor.submit("orchestrator", target, description, priority=priority)
        for target, description, priority in (
            ("reviewer", "Review the refund path\n\nLook at rounding and at currencies without cents.", "high"),
            ("translator", "Translate the release notes into German", "normal"),
            ("reviewer", "Review the new pricing page", "normal"),
            ("translator", "Translate the invoice template into Arabic", "low"),
        )
    ]
    for number, agent in ((0, "reviewer"), (1, "translator"), (3, "translator")):
        conductor.accept(given[number].task_id, agent=agent)
    conductor.complete(given[1].task_id, agent="translator", artifacts={"path": "notes/de.md"})
    conductor.fail(given[3].task_id, "No glossary for tax terms", agent="translator")


def _the_queues(scene: SampleData) -> None:
    """Two days of two queues: one with a morning and an evening, and consumers that are as far as they came; one that is quiet."""
    _queue(scene, "events", "House events", lambda hour: int(9 + 7 * sin(hour / 3.1)), {"alerts": 2, "archive": 37, "index": 0})
    _queue(scene, "deploys", "Deployments", lambda hour: int(hour in (3, 9, 17)), {"announce": 0})
    with notifier.open_notifier(str(scene.folder / NOTIFIER), now=lambda: scene.now) as opened, opened.write() as tx:
        for ago, outcome, status, output in ((95, "ok", 0, ""), (41, "failed", 1, "archive: the disk is full"), (12, "ok", 0, "")):
            task, command = notifier.dispatch_task(str(scene.folder / "events"))
            instant = scene.now - ago * MINUTE
            when = {"started": clock.format_stamp(instant), "ended": clock.format_stamp(instant + 800_000), "seconds": 0.8}
            how = {"attempt": 1, "outcome": outcome, "status": status, "signal": None, "output": output}
            tx.execute(RUN_INSERT, task=task, author="thread push", command=command, **when, **how)


def _queue(scene: SampleData, name: str, label: str, hourly: Callable[[int], int], consumers: dict[str, int]) -> None:
    folder = str(scene.folder / name)
    queues.init_queue(folder)
    instant, last = scene.now, 0
    with queues.open_queue(folder, now=lambda: instant) as queue:
        for consumer in consumers:
            queues.subscribe(queue, consumer, handler="true")
        for hour in range(24):
            instant = scene.now - (24 - hour) * HOUR * MINUTE + 30 * MINUTE
            events = [{"content": f"event {hour}.{number}"} for number in range(hourly(hour))]
            stored = queues.push_batch(queue, events, source="internal:dm:default:warden", type="message") if events else ()
            last = stored[-1].id if stored else last
        instant = scene.now
        for consumer, behind in consumers.items():
            queues.ack(queue, consumer, last_event_id=last - behind)
    add_queue(scene.cli, folder, label=label)


def picture() -> bytes:
    """A small chart as a PNG, drawn by hand: two curves on paper."""
    width, height = 480, 200
    rows = [bytearray(b"\xfb\xfa\xf7" * width) for _ in range(height)]
    for level in range(40, height, 40):
        rows[level][:] = b"\xe4\xe1\xda" * width
    for x in range(width):
        for start, slope, colour in ((60, 0.13, b"\x2f\x6f\xb5"), (60, 0.24, b"\xc2\x55\x2d")):
            y = int(start + slope * x + 6 * sin(x / 37))
            for line in range(y, y + 3):
                rows[line][3 * x : 3 * x + 3] = colour
    raw = b"".join(b"\0" + bytes(row) for row in rows)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + _chunk(b"IDAT", zlib.compress(raw, 9))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
