"""Every command, in JSON and in human form, as it succeeds and as it refuses: the transcripts are the tests."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from postroom.cli.inbox.spec import INBOX
from postroom.cli.mailbox.spec import MAILBOX
from postroom.cli.notifier.spec import NOTIFIER
from postroom.cli.thread.spec import THREAD
from tests.cli.abbreviation import KIND, KNOWN, abbreviate, expand
from tests.cli.transcript import TranscriptCase, every_scene

SCENES = every_scene()
LINES = {step.line for scene in SCENES for step in scene.steps}
# These have tests of their own: they run for long, say what this machine is like, write files of other programs, need failed handlers or a
# terminal.
ELSEWHERE = {
    "inbox": {"work", "doctor", "demo", "copy", "serve", "mcp", "hook", "harness connect", "harness check", "agent run", "store compact"}
    | {"store backup", "store restore", "store export", "store import", "store erase", "top"},
    "thread": {"dead retry", "dead drop"},
    "notifier": {"install", "run"},
}
TRANSCRIBED = [
    (program, name) for program in (INBOX, THREAD, NOTIFIER) for name in sorted(set(program.commands) - ELSEWHERE.get(program.name, set()))
]
COLD = {"send", "thread"}  # in every gate, so that some transcripts begin as a person's command does
# Their output is compared in tests of their own, or is empty; or they refuse nothing.
LONG = {"completion", "help"}
AGREEABLE = {("thread", "version"), ("notifier", "version"), ("notifier", "start"), ("notifier", "status")}
AGREEABLE |= {("notifier", "task list"), ("notifier", "timer list")}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "scene" in metafunc.fixturenames:
        metafunc.parametrize("scene", SCENES, ids=[f"{scene.file}: {scene.sentence}" for scene in SCENES])


@pytest.mark.parametrize("cold", [pytest.param(True, marks=pytest.mark.full), False], ids=["new interpreters", "forked"])
def test_the_transcript(scene: TranscriptCase, tmp_path: Path, *, cold: bool) -> None:
    """A forked command differs from a new interpreter by its start only, which tests/cli/test_fork_client.py compares."""
    cold = cold or scene.file in COLD
    seen = "\n".join(f"{step.mark} {step.line}\n{text}" for step, text in zip(scene.steps, scene.play(tmp_path, cold=cold)))
    assert seen == "\n".join(f"{step.mark} {step.line}\n{step.expected}" for step in scene.steps)


@cache
def _shown() -> set[tuple[str, str, str, str]]:
    """Which command was shown in which form with which end."""
    shown = set()
    for scene in SCENES:
        for step in scene.steps:
            program = {program.name: program for program in (INBOX, MAILBOX, THREAD, NOTIFIER)}[step.program]
            words = [word for word in step.argv() if not word.startswith("-")]
            name = " ".join(words[:2]) if words[:1] and words[0] in program.groups else "".join(words[:1])
            if step.mark in "$~" and "--help" not in step.argv():
                form = "json" if "--json" in step.argv() else "human"
                refused = step.expected.endswith(("[1]", "[2]", "[20]", "[30]", "[40]", "[50]"))
                shown.add((program.name, name, form, "refusal" if refused else "success"))
    return shown


@pytest.mark.parametrize(("program", "name"), [(program.name, name) for program, name in TRANSCRIBED])
def test_every_command_is_transcribed_in_both_forms_succeeding_and_refusing(program: str, name: str) -> None:
    ends = {"refusal"} if name in LONG else {"success"} if (program, name) in AGREEABLE else {"success", "refusal"}
    wanted = {(program, name, form, end) for form in ("json", "human") for end in ends}
    assert wanted - _shown() == set()


@pytest.mark.parametrize("name", [name for program, name in TRANSCRIBED if program is INBOX])
def test_the_help_of_every_command_is_transcribed(name: str) -> None:
    assert f"inbox {name} --help" in LINES


def _objects() -> some.SearchStrategy[Any]:
    """Known objects, with their fields as they are or changed, and with further fields; alone and inside one another.

    They are small: Hypothesis refuses data that is slow to make, as large objects are on a loaded machine.
    """
    values = some.recursive(
        some.none() | some.booleans() | some.integers(0, 2) | some.sampled_from((0.0, 1.0, 900.0, "", "thr_1")),
        lambda inner: some.lists(inner, max_size=2) | some.dictionaries(some.sampled_from(("id", "thread", "x")), inner, max_size=2),
        max_leaves=4,
    )
    known = [
        some.fixed_dictionaries({key: some.just(item) | values for key, item in fields.items()}, optional={"more": values})
        for fields in KNOWN.values()
    ]
    return some.recursive(
        values | some.one_of(known),
        lambda inner: some.lists(inner, max_size=2) | some.dictionaries(some.text(max_size=3), inner, max_size=2),
        max_leaves=4,
    )


@given(_objects())
def test_an_abbreviated_object_can_be_written_out_again(value: Any) -> None:
    assert json.dumps(expand(abbreviate(value))) == json.dumps(value)


@pytest.mark.parametrize("kind", KNOWN)
def test_an_object_that_has_a_new_field_in_its_midst_is_written_whole(kind: str) -> None:
    first, *rest = KNOWN[kind].items()
    assert abbreviate(KNOWN[kind]) == {KIND: kind}
    assert KIND not in abbreviate(dict([first, ("colour", "blue"), *rest]))


@pytest.mark.parametrize("kind", KNOWN)
def test_every_known_object_is_in_a_transcript(kind: str) -> None:
    assert any(f'"{KIND}": "{kind}"' in step.expected for scene in SCENES for step in scene.steps)
