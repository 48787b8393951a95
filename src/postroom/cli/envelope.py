"""What a command prints and how it exits: one JSON shape, one table from refusals to exit codes."""

from __future__ import annotations

import os

from postroom.core import errors
from postroom.core.jsontext import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from postroom.cli.grammar import Program
    from postroom.cli.parsing import Arguments

SCHEMA_VERSION = 1
OK, NOTHING, CONFLICT, INVALID, MISSING, TROUBLE = 0, 10, 20, 30, 40, 50

# The first row that fits. A test walks the tree of refusals and fails if one has no row.
EXIT_CODES: tuple[tuple[type[errors.Refusal], int], ...] = (
    (errors.Conflict, CONFLICT),
    (errors.Invalid, INVALID),
    (errors.Denied, INVALID),
    (errors.Missing, MISSING),
    (errors.StoreTrouble, TROUBLE),
    (errors.Interrupted, 130),
)


class Outcome:
    """What a command has to say: `data` for the envelope (None: all was said), `human` the name of its picture in human.py.

    `after` runs once the answer is out: what was not shown is never noted as seen.
    """

    def __init__(
        self, data: dict[str, Any] | None, *, human: str = "", exit_code: int = OK, after: Callable[[], None] | None = None
    ) -> None:
        self.data = data
        self.human = human
        self.exit_code = exit_code
        self.after = after


def show(args: Arguments, outcome: Outcome) -> None:
    if outcome.data is None:
        return
    if args.json:
        write(1, success(args.command.name, outcome.data))
    elif outcome.human:
        from postroom.cli import human

        write(1, human.picture(outcome.human, outcome.data))


def refuse(program: Program, refusal: errors.Refusal, json: bool) -> int:
    if json:
        write(1, failure(refusal.command, refusal))
    else:
        from postroom.cli import human

        write(2, human.refusal(refusal))
    return exit_code(refusal)


def success(command: str, data: dict[str, Any]) -> str:
    return dumps({"ok": True, "schema_version": SCHEMA_VERSION, "command": command, **data}) + "\n"


def failure(command: str | None, refusal: errors.Refusal) -> str:
    error: dict[str, object] = {"code": refusal.code, "message": str(refusal), "hint": refusal.hint}
    error.update((name, value) for name, value in refusal.facts.items() if name not in error)
    return dumps({"ok": False, "schema_version": SCHEMA_VERSION, "command": command, "error": error}) + "\n"


def exit_code(refusal: errors.Refusal) -> int:
    if isinstance(refusal, errors.Interrupted):
        return 128 + int(refusal.facts["signal"])  # type: ignore[call-overload, no-any-return]
    return next((code for kind, code in EXIT_CODES if isinstance(refusal, kind)), TROUBLE)


def write(descriptor: int, text: str) -> bool:
    """Print, whatever the locale, and all of it. A reader that went away is not our failure, nor is a closed standard error.

    False if nobody reads any more.
    """
    data = text.encode(errors="backslashreplace")
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except BrokenPipeError:
        return False
    except OSError:
        if descriptor != 2:
            raise
    return True
