"""Output of `inbox` and `mailbox`: the JSON envelope, and the table from refusals to exit codes."""

from __future__ import annotations

import os

from postroom._fastpath.json_text import dumps
from postroom.core import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from postroom.cli.framework.parser import Arguments
    from postroom.cli.framework.spec import CommandTable

SCHEMA_VERSION = 1
OK, NOTHING, CONFLICT, INVALID, MISSING, TROUBLE = 0, 10, 20, 30, 40, 50

# The first matching row counts. A test walks the tree of refusals and fails if one has no row.
EXIT_CODES: tuple[tuple[type[errors.Refusal], int], ...] = (
    (errors.Conflict, CONFLICT),
    (errors.Invalid, INVALID),
    (errors.Denied, INVALID),
    (errors.Missing, MISSING),
    (errors.StoreTrouble, TROUBLE),
    (errors.Interrupted, 130),
)


class Outcome:
    """The result of a handler.

    `data` goes into the JSON envelope. None means that the handler has printed everything itself. `view` names the function
    that renders `data` for people. `after` runs once the answer is printed, so that nothing unprinted is marked as read.
    """

    def __init__(
        self, data: dict[str, Any] | None, *, view: str = "", exit_code: int = OK, after: Callable[[], None] | None = None
    ) -> None:
        self.data = data
        self.view = view
        self.exit_code = exit_code
        self.after = after


def print_outcome(args: Arguments, outcome: Outcome) -> None:
    """Print the JSON envelope or the text view on standard output."""
    if outcome.data is None:
        return
    if args.json:
        write_all(1, success_json(args.command.name, outcome.data))
    elif outcome.view:
        write_all(1, __import__("postroom.cli.inbox.views", fromlist=("render_view",)).render_view(outcome.view, outcome.data))


def print_refusal(program: CommandTable, refusal: errors.Refusal, json: bool) -> int:
    """Print a refusal, as JSON on standard output or as text on standard error. Return the exit code."""
    if json:
        write_all(1, failure_json(refusal.command, refusal))
    else:
        from postroom.cli.framework import terminal

        write_all(2, terminal.render_refusal(refusal))
    return exit_code(refusal)


def success_json(command: str, data: dict[str, Any]) -> str:
    return dumps({"ok": True, "schema_version": SCHEMA_VERSION, "command": command, **data}) + "\n"


def failure_json(command: str | None, refusal: errors.Refusal) -> str:
    error: dict[str, object] = {"code": refusal.code, "message": str(refusal), "hint": refusal.hint}
    error.update((name, value) for name, value in refusal.facts.items() if name not in error)
    return dumps({"ok": False, "schema_version": SCHEMA_VERSION, "command": command, "error": error}) + "\n"


def exit_code(refusal: errors.Refusal) -> int:
    if isinstance(refusal, errors.Interrupted):
        return 128 + int(refusal.facts["signal"])  # type: ignore[call-overload, no-any-return]
    return next((code for kind, code in EXIT_CODES if isinstance(refusal, kind)), TROUBLE)


def write_all(descriptor: int, text: str) -> bool:
    """Write the whole text as UTF-8, whatever the locale. Return False if the reader has closed the pipe.

    Errors on standard error are ignored. Any other `OSError` is raised.
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
