"""Handler of `harness check`: prove the connections of this folder, and send a message by every route of its agent."""

from __future__ import annotations

import os
from time import monotonic, sleep

from postroom._fastpath import json_text as jsontext
from postroom.cli.framework.output import CONFLICT, OK, Outcome
from postroom.cli.inbox import inputs
from postroom.cli.inbox.harness import programs
from postroom.cli.inbox.harness.files import ConnectionRecord
from postroom.core import clock
from postroom.core.errors import InvalidInput, NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.framework.parser import Arguments
    from postroom.core.records import Event
    from postroom.store.interface import Store

    Data = dict[str, Any]

DEFAULT_SECONDS = 20.0
POLL_SECONDS = 0.05
SENDER = "postroom-check"
_STEPS = {"wake.offered": "offered", "wake.injected": "injected", "mail.offered": "handed over", "mail.acked": "seen"}


def handle_check(args: Arguments) -> Outcome:
    from postroom.cli.inbox.harness.checking import check_connection
    from postroom.cli.inbox.harness.connect import find_target

    folder = os.getcwd()
    known = [name for name in programs.PROGRAMS if ConnectionRecord(folder, name).exists]
    chosen = [args.words[0]] if args.words else known
    if any(name not in programs.PROGRAMS or name == "generic" for name in chosen):
        raise InvalidInput(f"{chosen[0]} is not a known program", field="harness", hint=f"One of: {', '.join(programs.PROGRAMS[:-1])}.")
    if not chosen:
        raise NotFound("no program is connected in this folder", hint="Connect one: `inbox harness connect claude`.")
    targets = {name: find_target(args, name, folder, may_add=False, known=ConnectionRecord(folder, name).options) for name in chosen}
    agent = targets[chosen[0]].agent
    checks = [{"program": name, **check} for name, target in targets.items() for check in check_connection(name, target)]
    data: Data = {"agent": agent, "checks": checks}
    is_ok = all(check["ok"] for check in checks)
    if args.roundtrip:
        data["roundtrip"] = run_roundtrip(inputs.open_store_for(args), agent, seconds=args.timeout_seconds or DEFAULT_SECONDS)
        is_ok = is_ok and data["roundtrip"]["ok"]
    return Outcome(data, view="harness roundtrip", exit_code=OK if is_ok else CONFLICT, only_reads=not args.roundtrip)


def run_roundtrip(store: Store, agent: str, *, seconds: float) -> Data:
    """Send a message to an agent, and return its receipts: which waiting session was told, and after how many milliseconds.

    Waits until one of the sessions that wait now has been told and the agent has read the message, at most `seconds`.
    """
    from postroom.cli.inbox.harness.probing import WAITING, probe_routes
    from postroom.mail.drafts import PROTOCOL_VERSION
    from postroom.mail.mailbox import enqueue

    waiting = [route for route in probe_routes(store, agent) if route["probe"] == WAITING]
    text = "This is a check of your connection. Read it; no answer is needed."
    message = {"from": SENDER, "to": agent, "payload": text, "protocol_version": PROTOCOL_VERSION}
    msg_id = enqueue(store, message).msg_id
    deadline = monotonic() + seconds
    while True:
        receipts = _read_receipts(store, msg_id)
        told = {(step["route"], step["session"]) for step in receipts if step["step"] == "injected"}
        is_ok = any((route["route"], route["session"]) in told for route in waiting)
        if (is_ok and any(step["step"] == "seen" for step in receipts)) or monotonic() >= deadline:
            return {"ok": is_ok, "waiting": len(waiting), "message": msg_id, "receipts": receipts}
        sleep(POLL_SECONDS)


def _read_receipts(store: Store, msg_id: str) -> list[Data]:
    with store.read() as tx:
        events = list(tx.fetch_all(tx.sql.events_of_subject, message_id=msg_id, types="%"))
    began = clock.parse_stamp(events[0].created_at)
    return [_describe(event, began) for event in events]


def _describe(event: Event, began: int) -> Data:
    facts = jsontext.loads(event.payload_json)
    step = _STEPS.get(event.event_type, event.event_type.partition(".")[2])
    is_wake = event.event_type.startswith("wake.")
    route = {name: facts[name] if is_wake else "" for name in ("program", "route", "session")}
    return {"step": step, "milliseconds": (clock.parse_stamp(event.created_at) - began) // 1000, **route}
