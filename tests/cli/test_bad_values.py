"""Values that no flag of their kind takes: for every flag of every command, as the tables have them.

What one command refuses by itself, such as a number out of its range, is in the `test_*_bad_input.py` of its room.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from postroom.cli.framework.parser import parse
from postroom.cli.framework.spec import INTEGER, NUMBER, SWITCH, Command, CommandTable, Flag
from postroom.cli.inbox.spec import INBOX
from postroom.cli.mailbox.spec import MAILBOX
from postroom.cli.notifier.spec import NOTIFIER
from postroom.cli.thread.spec import THREAD
from postroom.core.errors import InvalidInput

NO_NUMBERS = ("x", "", " ", "1e", "0x10", "1,5", "--1", "true", "½")
NO_INTEGERS = (*NO_NUMBERS, "1.5", "nan", "inf", "1e3")
of_every_program = pytest.mark.parametrize("program", [INBOX, MAILBOX, THREAD, NOTIFIER], ids=lambda program: program.name)


def _flags(program: CommandTable) -> Iterator[tuple[Command, Flag]]:
    for command in program.commands.values():
        for flag in (*program.flags, *command.flags):
            yield command, flag


def _refused(program: CommandTable, command: Command, flag: Flag, *argv: str) -> str:
    """The message of a refusal that names the flag and the command."""
    with pytest.raises(InvalidInput) as refused:
        parse(program, [*command.name.split(), *argv])
    assert (refused.value.command, refused.value.facts["field"]) == (command.name, flag.field)
    return str(refused.value)


@of_every_program
def test_what_is_no_number_is_refused_by_every_flag_that_takes_one(program: CommandTable) -> None:
    for command, flag in _flags(program):
        for value in {INTEGER: NO_INTEGERS, NUMBER: NO_NUMBERS}.get(flag.kind, ()):
            assert "must be a" in _refused(program, command, flag, f"{flag.name}={value}")


@of_every_program
def test_a_flag_that_takes_a_value_is_refused_without_one(program: CommandTable) -> None:
    for command, flag in _flags(program):
        if flag.kind != SWITCH:
            assert "needs a value" in _refused(program, command, flag, flag.name)


@of_every_program
def test_a_switch_is_refused_with_a_value(program: CommandTable) -> None:
    for command, flag in _flags(program):
        if flag.kind == SWITCH and flag.name != "--help":
            assert "takes no value" in _refused(program, command, flag, f"{flag.name}=1")


@of_every_program
def test_a_flag_that_is_given_twice_with_different_values_is_refused(program: CommandTable) -> None:
    for command, flag in _flags(program):
        if flag.kind != SWITCH and not flag.repeat:
            assert "given twice" in _refused(program, command, flag, f"{flag.name}=1", f"{flag.name}=2")
