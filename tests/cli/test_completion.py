"""Completion: the scripts are run by the shells that they are for, and ask the program."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from postroom import mail, people, work
from postroom.cli.framework.candidates import FILES, list_candidates
from postroom.cli.framework.completion import completion_script
from postroom.cli.framework.spec import CommandTable
from postroom.cli.inbox.spec import INBOX
from postroom.cli.mailbox.spec import MAILBOX
from postroom.cli.notifier.spec import NOTIFIER
from postroom.cli.thread.spec import THREAD
from postroom.store import open_store
from tests.cli.process import SCRIPTS, Inbox
from tests.contract.task_data import conductor_with_agents

PROGRAMS = {program.name: program for program in (INBOX, MAILBOX, THREAD, NOTIFIER)}
COMMANDS = [(program, name) for program in PROGRAMS.values() for name in program.commands]


def _words(program: CommandTable, *typed: str) -> list[str]:
    return sorted(word for word, _ in list_candidates(program, list(typed)))


def _complete_in_bash(inbox: Inbox, program: str, *words: str) -> list[str]:
    """Return the candidates that bash offers for the last of these words."""
    line = shlex.join((str(SCRIPTS / program), *words))
    ask = f'COMP_WORDS=({line}); COMP_CWORD={len(words)}; _{program}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    script = completion_script(PROGRAMS[program], "bash") + ask
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, cwd=inbox.folder, env=inbox.environment(), check=False)
    assert done.stderr == ""
    return sorted(filter(None, done.stdout.split("\n")))


@pytest.mark.parametrize("program", PROGRAMS)
def test_bash_completes_the_commands_of_every_program(bare: Inbox, program: str) -> None:
    assert _complete_in_bash(bare, program, "hel") == ["help"]
    assert "completion" in _complete_in_bash(bare, program, "")


def test_bash_completes_files_with_spaces_and_values_with_quotes(bare: Inbox) -> None:
    bare.found()
    bare.ok("agent", "add", "ada lovelace")
    for name in ("result one.md", "result.md"):
        (bare.folder / name).touch()
    assert _complete_in_bash(bare, "inbox", "done", "--body-file", "res") == ["result one.md", "result.md"]
    assert _complete_in_bash(bare, "inbox", "send", "--to", "ada") == ["ada\\ lovelace"]


def test_files_are_offered_for_the_stores_of_a_copy() -> None:
    assert [_words(INBOX, "copy", flag, "") for flag in ("--from", "--to")] == [[FILES], [FILES]]


ZSH_CALL = """[[ -n $SHELLS ]] && { module_path=($SHELLS/usr/lib/*/zsh/*(N)); fpath=($SHELLS/usr/share/zsh/functions/**/(N)) }
compadd() { shift 4; print -l -- "${(@P)1}" }; _files() { print FILES }; compdef() { }
source SCRIPT; words=(PATH hel); CURRENT=2; _PROGRAM"""


def _find_shell(name: str) -> tuple[str, dict[str, str]]:
    """Return the path of a shell, of the machine or as `make test` unpacked it, and the variables that it needs.

    Under CI, a shell may be missing only if `make test` tried to fetch it: then the test is skipped with the reason of the failure.
    """
    if found := shutil.which(name):
        return found, {}
    shells = Path(sys.prefix) / "shells"
    for path in (shells / "bin" / name, shells / "usr" / "bin" / name):
        if path.exists():
            libraries = ":".join(str(folder) for folder in (shells / "usr" / "lib").glob("*-linux-gnu"))
            return str(path), {"LD_LIBRARY_PATH": libraries, "SHELLS": str(shells)}
    tried = shells / "tried"
    reason = tried.read_text(errors="replace").strip()[-200:] if tried.exists() else "run `make test` once to fetch it"
    assert not os.environ.get("CI"), f"under CI, {name} must be there: {reason}"
    pytest.skip(f"{name} could not be fetched: {reason}")


@pytest.mark.parametrize("program", [*PROGRAMS, "postroom"])
def test_zsh_completes(bare: Inbox, tmp_path: Path, program: str) -> None:
    script = tmp_path / "script"
    script.write_text(_printed_script(bare, program, "zsh"), encoding="utf-8")
    zsh, variables = _find_shell("zsh")
    call = ZSH_CALL.replace("SCRIPT", str(script)).replace("PATH", str(SCRIPTS / program)).replace("PROGRAM", program)
    done = subprocess.run([zsh, "-fc", call], capture_output=True, text=True, env=bare.environment() | variables, check=False)
    assert (done.stdout, done.stderr) == ("help\n", "")


@pytest.mark.parametrize("program", [*PROGRAMS, "postroom"])
def test_fish_completes(bare: Inbox, tmp_path: Path, program: str) -> None:
    script = tmp_path / "script"
    script.write_text(_printed_script(bare, program, "fish"), encoding="utf-8")
    fish, variables = _find_shell("fish")
    environment = bare.environment() | variables | {"PATH": f"{SCRIPTS}:/usr/bin:/bin", "HOME": str(tmp_path)}
    ask = f"source {script}; complete -C '{program} hel'"
    done = subprocess.run([fish, "--no-config", "-c", ask], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.startswith("help\t")


def _printed_script(inbox: Inbox, program: str, shell: str) -> str:
    """Return the completion script that a program prints for a shell."""
    argv = [str(SCRIPTS / program), "completion", shell]
    return subprocess.run(argv, capture_output=True, text=True, env=inbox.environment(), check=True).stdout


@pytest.mark.parametrize(
    ("words", "offered"),
    [(["mailb"], ["mailbox"]), (["wait-"], ["wait-reply"]), (["mailbox", "peek-d"], ["peek-dead-letter"]), (["help", "ren"], ["renew"])],
)
def test_bash_completes_the_front_door(bare: Inbox, words: list[str], offered: list[str]) -> None:
    script = _printed_script(bare, "postroom", "bash")
    line = shlex.join((str(SCRIPTS / "postroom"), *words))
    ask = f'COMP_WORDS=({line}); COMP_CWORD={len(words)}; _postroom; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-euc", script + ask], capture_output=True, text=True, env=bare.environment(), check=False)
    assert (done.stdout.split(), done.stderr) == (offered, "")


def test_a_shell_without_a_script_is_refused(bare: Inbox) -> None:
    assert bare.run("completion", "csh").code == 30


def test_commands_are_completed() -> None:
    assert {"release", "renew", "reply"} <= set(_words(INBOX, "re"))
    assert _words(INBOX, "wait-") == ["wait-reply"]
    assert set(_words(INBOX, "")) == {name.split()[0] for name in INBOX.commands}


def test_commands_are_completed_after_global_flags() -> None:
    assert {"take", "task"} <= set(_words(INBOX, "--json", "--agent", "builder", "ta"))


def test_the_second_word_of_a_group_is_completed() -> None:
    assert {"add", "find", "list", "register", "show", "token"} <= set(_words(INBOX, "agent", ""))
    assert _words(INBOX, "agent", "add", "--k") == ["--kind"]


@pytest.mark.parametrize(("program", "name"), COMMANDS, ids=[f"{program.name} {name}" for program, name in COMMANDS])
def test_the_flags_of_every_command_are_completed(program: CommandTable, name: str) -> None:
    expected = {flag.name for flag in (*program.commands[name].flags, *program.flags)}
    assert _words(program, *name.split(), "--") == sorted(expected)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["send", "--priority", ""], ["high", "low", "normal"]),
        (["send", "--kind", "a"], ["answer"]),
        (["update", "--status", ""], ["blocked", "in_progress"]),
        (["agent", "add", "maria", "--kind", ""], ["agent", "human"]),
        (["completion", "b"], ["bash"]),
        (["help", "ren"], ["renew"]),
        (["serve", "--tls-cert", ""], [FILES]),
        (["nonsense", ""], []),
        (["send", "--subject", ""], []),
    ],
)
def test_values_are_completed(words: list[str], offered: list[str]) -> None:
    assert _words(INBOX, *words) == offered


def test_a_word_after_a_flags_value_is_not_taken_for_a_command() -> None:
    assert "--summary" in _words(INBOX, "update", "--thread", "thr_1", "--s")
    assert "--agent" in _words(INBOX, "agent", "show", "list", "--a")


def test_the_values_of_the_store_are_completed(bare: Inbox) -> None:
    bare.found()
    store = open_store(str(bare.db))
    work.send(store, sender="leader", to="ada", thread_id="login", subject="Add the login page", run_id="r1")
    mail.enqueue(store, {"from": "lead", "to": "analyst", "payload": "x", "msg_id": "m1"})
    conductor = conductor_with_agents(store, "canyon", "forge")
    task, job = conductor.submit("forge", "canyon", "Review").task_id, conductor.start_job("canyon").job_id
    people.issue_link(store, person="user")
    [listed] = people.list_passes(store).passes
    entry = people.notify(store, sender="cron", text="Backup\nfailed")
    db = ["--db", str(bare.db)]
    assert list_candidates(INBOX, [*db, "show", "lo"]) == [("login", "pending: Add the login page")]
    assert _words(INBOX, *db, "send", "--thread", "") == ["login"]
    assert "leader" in _words(INBOX, *db, "take", "--agent", "")
    assert _words(INBOX, *db, "run", "show", "") == ["r1"]
    assert _words(MAILBOX, *db, "dequeue", "--session", "a") == ["analyst"]
    assert _words(MAILBOX, *db, "dequeue", "a") == ["analyst"]
    assert _words(MAILBOX, *db, "ack", "--session", "analyst", "") == _words(MAILBOX, *db, "show", "--msg-id", "") == ["m1"]
    assert _words(INBOX, *db, "task", "show", "") == [task]
    assert _words(INBOX, *db, "job", "show", "") == [job]
    assert _words(INBOX, *db, "pass", "revoke", "") == [listed.pass_id]
    assert entry.id not in _words(INBOX, *db, "show", "")
    store.close()


def test_a_store_that_is_not_there_offers_nothing_and_says_nothing(bare: Inbox) -> None:
    assert _words(INBOX, "--db", str(bare.folder / "gone.db"), "show", "--thread", "") == []
    assert sorted(bare.folder.iterdir()) == []
