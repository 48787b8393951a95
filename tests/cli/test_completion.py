"""Completion: the scripts are run by the shells they are for."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from postroom.cli.inbox.spec import INBOX
from tests.cli.process import Inbox

COMMANDS, GLOBAL = INBOX.commands, INBOX.flags


def _complete(inbox: Inbox, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    asked = " ".join(f"'{word}'" for word in ("inbox", *words))
    ask = f'COMP_WORDS=({asked}); COMP_CWORD={len(words)}; _inbox; printf "%s\\n" "${{COMPREPLY[@]}}"'
    script = inbox.says("completion", "bash") + ask
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, cwd=inbox.folder, env=inbox.environment(), check=False)
    assert done.stderr == ""
    return sorted(done.stdout.split())


def test_the_bash_script_is_bash(bare: Inbox) -> None:
    script = bare.says("completion", "bash")
    assert subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False).stderr == ""
    registered = subprocess.run(["bash", "-c", script + "complete -p inbox"], capture_output=True, text=True, check=True)
    assert registered.stdout == "complete -F _inbox inbox\n"


def test_the_scripts_are_also_given_to_programs(bare: Inbox) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert bare.ok("completion", shell)["text"] == bare.says("completion", shell)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_accept_their_script(bare: Inbox, tmp_path: Path, shell: str) -> None:
    script = tmp_path / "script"
    script.write_text(bare.says("completion", shell), encoding="utf-8")
    assert "inbox" in script.read_text(encoding="utf-8")
    if shutil.which(shell):
        assert subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False).stderr == ""


def test_commands_are_completed(bare: Inbox) -> None:
    assert _complete(bare, "re") == ["reassign", "release", "renew", "reply", "retry"]
    assert _complete(bare, "wa") == ["wait-reply", "watch"]
    firsts = {name.split()[0] for name in COMMANDS}
    assert set(_complete(bare, "")) >= firsts


def test_commands_are_completed_after_global_flags(bare: Inbox) -> None:
    assert _complete(bare, "--json", "--agent", "builder", "ta") == ["take", "task"]


def test_the_second_word_of_a_group_is_completed(bare: Inbox) -> None:
    assert _complete(bare, "agent", "") == ["add", "find", "list", "register", "show", "token"]
    assert _complete(bare, "agent", "add", "--k") == ["--kind"]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_flags_of_every_command_are_completed(bare: Inbox, name: str) -> None:
    assert _complete(bare, *name.split(), "--") == sorted(flag.name for flag in (*COMMANDS[name].flags, *GLOBAL))


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["send", "--priority", ""], ["high", "low", "normal"]),
        (["send", "--kind", "a"], ["answer"]),
        (["update", "--status", ""], ["blocked", "in_progress"]),
        (["agent", "add", "maria", "--kind", ""], ["agent", "human"]),
        (["completion", "b"], ["bash"]),
        (["help", "ren"], ["renew"]),
    ],
)
def test_values_are_completed(bare: Inbox, words: list[str], offered: list[str]) -> None:
    assert _complete(bare, *words) == offered


def test_a_word_after_a_flags_value_is_not_taken_for_a_command(bare: Inbox) -> None:
    assert "--summary" in _complete(bare, "update", "--thread", "thr_1", "--s")
    assert "--agent" in _complete(bare, "agent", "show", "list", "--a")


def test_files_are_completed_where_files_are_meant(bare: Inbox) -> None:
    (bare.folder / "result.md").touch()
    assert _complete(bare, "done", "--body-file", "res") == ["result.md"]
    assert _complete(bare, "done", "--artifact", "res") == ["result.md"]


def test_the_fish_script_names_every_command_and_flag(bare: Inbox) -> None:
    script = bare.says("completion", "fish")
    for name, command in COMMANDS.items():
        assert f"-a '{name.split()[-1]}'" in script
        for flag in command.flags:
            assert f"-l {flag.name[2:]}" in script


def test_the_fish_script_does_not_evaluate_our_text(bare: Inbox) -> None:
    """In fish, $ and parentheses are live only outside single quotes."""
    for line in bare.says("completion", "fish").splitlines():
        bare_parts = line.replace("\\'", "").split("'")[::2]
        assert not any(mark in part for part in bare_parts for mark in "$()`;"), line
