"""The transcripts again, with the store behind a server: the same output and the same exit codes. What differs is listed here, with why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import postroom
from postroom import people
from postroom.store.remote.health import examine_running_server
from tests.cli.process import Inbox
from tests.cli.remote import FORBIDDEN, Remote, served
from tests.cli.transcript import TranscriptCase, every_scene
from tests.server_in_thread import ServerInThread

# Files of transcripts that are not about a store that can be elsewhere.
LOCAL = {
    "completion": "needs no store",
    "help": "needs no store",
    "init": "makes a store, on the machine that has it",
    "notifier": "queues are folders",
    "queue": "queues are folders",
    "skill": "needs no store",
    "status": "says whether a server runs; tests/server/test_rooms.py asks it over one",
    "store": "a store is maintained on its own machine",
    "thread": "queues are folders",
    "version": "needs no store",
}
# Commands that concern the server's machine: refused over the network, and then run there, so that the scene goes on.
HERE = frozenset(
    (
        "agent token",
        "channel add",
        "channel receive",
        "channel run",
        "channel test",
        "mcp",
        "serve",
        "sign-in",
        "workspace add",
        "workspace set",
        "workspace token",
    )
)
# Scenes in which numbers differ: a server shows people a question at once, and that is an event of its own, which others are counted after.
COUNTED = {("update", "A question can be asked of somebody else")}
# Over TCP, with a person's token, a few of them again: it is the same from the first line on.
AGAIN = ("send", "wait-reply", "watch")

SCENES = [("unix", scene) for scene in every_scene() if scene.file not in LOCAL]
SCENES += [("http", scene) for _, scene in SCENES if scene.file in AGAIN]


def _parameters() -> Iterator[object]:
    """Each scene over its wire. `make test` runs the first scene of each file, `make test-all` runs them all."""
    seen: set[tuple[str, str]] = set()
    for wire, scene in SCENES:
        marks = [pytest.mark.wires] if (wire, scene.file) in seen else []
        seen.add((wire, scene.file))
        yield pytest.param(wire, scene, marks=marks, id=f"{wire}: {scene.file}: {scene.sentence}")


@pytest.mark.parametrize(("wire", "scene"), list(_parameters()))
def test_the_transcript_from_afar(wire: str, scene: TranscriptCase, tmp_path: Path, relay: ServerInThread) -> None:
    with closing(Remote(tmp_path, relay, wire, HERE)) as inbox:
        seen = scene.play(tmp_path, inbox)
    told = "\n".join(f"{step.mark} {step.line}\n{text}" for step, text in zip(scene.steps, seen))
    expected = "\n".join(f"{step.mark} {step.line}\n{step.expected}" for step in scene.steps)
    if (scene.file, scene.sentence) in COUNTED:
        told, expected = (re.sub(r'event_id": \d+', 'event_id": 1', text) for text in (told, expected))
    assert told == expected


@pytest.fixture
def afar(bare: Inbox, relay: ServerInThread) -> Iterator[Inbox]:
    """`inbox`, whose store is behind a server."""
    bare.found()
    with served(relay, "unix", bare.db) as bare.served:
        yield bare


MACHINE = {
    "init": ("init",),
    "init of another": ("init", "--db", "unix:/nowhere"),
    "serve": ("serve", "--port", "0"),
    "mcp": ("mcp", "--workspace", "ws_x"),
    "copy from": ("copy", "--from", "{}", "--to", "new.db"),
    "copy to": ("copy", "--from", ".agents/coord.db", "--to", "{}"),
    "queue": ("queue", "add", "queue"),
    "token": ("agent", "token", "analyst"),
    "link": ("sign-in",),
    "workspace": ("workspace", "add", "."),
    "channel": ("channel", "add", "command", "true"),
    "prune": ("store", "prune"),
}


@pytest.mark.parametrize("words", MACHINE.values(), ids=MACHINE)
def test_what_needs_the_servers_machine_is_refused_by_name(afar: Inbox, words: tuple[str, ...]) -> None:
    before = _files_of(afar.folder)
    told = afar.run(*(word.format(afar.served["INBOX_DB"]) for word in words), "--json")
    assert told.code == FORBIDDEN, told
    assert told.json["error"]["hint"]
    assert _files_of(afar.folder) == before


AGENT_REFUSALS = {
    "a person's command": (("entries",), "agents may not run `inbox entries`"),
    "the alias of one": (("questions",), "agents may not run `inbox entries`"),
    "one of a group": (("pass", "list"), "agents may not run `inbox pass list`"),
}


@pytest.mark.parametrize(("words", "message"), AGENT_REFUSALS.values(), ids=AGENT_REFUSALS)
def test_an_agent_is_told_which_command_it_may_not_run(bare: Inbox, relay: ServerInThread, words: tuple[str, ...], message: str) -> None:
    bare.found()
    with closing(postroom.open(str(bare.db))) as store:
        token = people.issue_agent_token(store, name="ada")
    with served(relay, "http", bare.db) as bare.served:
        told = bare.run(*words, "--json", INBOX_TOKEN=token)
    assert (told.code, told.json["error"]["message"]) == (FORBIDDEN, message)


def _files_of(folder: Path) -> list[Path]:
    """Every file but the empty ones that wake waiters: the server, which has just started, may still make them."""
    return sorted(path for path in folder.rglob("*") if not path.name.endswith(".bells") and ".bells/" not in str(path))


def test_the_doctor_looks_at_the_server(afar: Inbox) -> None:
    checks = {check["what"]: check["state"] for check in afar.ok("doctor", "--agent", "builder")["checks"]}
    assert checks["server"] == "ok"
    running = examine_running_server(afar.served["INBOX_DB"], "")
    assert (running.state, running.says.endswith(f"answers, version {postroom.__version__}")) == ("ok", True)
    away = afar.run("doctor", "--json", INBOX_DB="unix:/nowhere")
    assert away.code != 0, away
