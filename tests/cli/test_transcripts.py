"""Every command, in JSON and in human form, as it succeeds and as it refuses: the transcripts are the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from postroom.cli.table import INBOX
from tests.cli.transcript import Scene, every_scene

COMMANDS = INBOX.commands

SCENES = every_scene()
ELSEWHERE = {"work", "doctor", "demo", "copy"}  # have tests of their own: they run for long, or say what this machine is like
TRANSCRIBED = sorted(set(COMMANDS) - ELSEWHERE)
LONG = {"completion", "help"}  # what they print is compared in test_completion.py and test_help.py


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "scene" in metafunc.fixturenames:
        metafunc.parametrize("scene", SCENES, ids=[f"{scene.file}: {scene.sentence}" for scene in SCENES])


def test_the_transcript(scene: Scene, tmp_path: Path) -> None:
    seen = "\n".join(f"{step.mark} {step.line}\n{text}" for step, text in zip(scene.steps, scene.play(tmp_path)))
    assert seen == "\n".join(f"{step.mark} {step.line}\n{step.expected}" for step in scene.steps)


def _shown() -> set[tuple[str, str, str]]:
    """Which command was shown in which form with which end."""
    shown = set()
    for scene in SCENES:
        for step in scene.steps:
            words = [word for word in step.argv() if not word.startswith("-")]
            name = " ".join(words[:2]) if words[:1] == ["agent"] else "".join(words[:1])
            if step.mark == "$" and "--help" not in step.argv():
                form = "json" if "--json" in step.argv() else "human"
                refused = step.expected.endswith(("[20]", "[30]", "[40]", "[50]"))
                shown.add((name, form, "refusal" if refused else "success"))
    return shown


@pytest.mark.parametrize("name", TRANSCRIBED)
def test_every_command_is_transcribed_in_both_forms_succeeding_and_refusing(name: str) -> None:
    ends = {"refusal"} if name in LONG else {"success", "refusal"}
    wanted = {(name, form, end) for form in ("json", "human") for end in ends}
    assert wanted - _shown() == set()


@pytest.mark.parametrize("name", TRANSCRIBED)
def test_the_help_of_every_command_is_transcribed(name: str) -> None:
    lines = {step.line for scene in SCENES for step in scene.steps}
    assert f"inbox {name} --help" in lines
