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
    that renders `data` for people. `after` runs once the answer is printed, so that nothing unprinted is marked as read. `recovery` is
    how to get the answer again if it cannot be printed. `only_reads` is whether the answer is all that the command gives. None means
    that the modes of the called verbs say so.
    """

    def __init__(
        self,
        data: dict[str, Any] | None,
        *,
        view: str = "",
        exit_code: int = OK,
        after: Callable[[], None] | None = None,
        recovery: str = "",
        only_reads: bool | None = None,
    ) -> None:
        self.data = data
        self.view = view
        self.exit_code = exit_code
        self.after = after
        self.recovery = recovery
        self.only_reads = only_reads


def print_outcome(args: Arguments, outcome: Outcome) -> bool:
    """Print the JSON envelope or the text view on standard output. Return whether it can be taken as seen."""
    if outcome.data is None:
        return True
    if args.json:
        text = success_json(args.command.name, outcome.data)
    elif outcome.view:
        text = __import__("postroom.cli.inbox.views", fromlist=("render_view",)).render_view(outcome.view, outcome.data)
    else:
        return True
    if print_answer(text, outcome.recovery, only_reads=outcome.only_reads):
        return True
    if outcome.exit_code == OK and _has_only_read(outcome.only_reads):
        outcome.exit_code = TROUBLE
    return False


def _has_only_read(only_reads: bool | None) -> bool:
    from postroom.core.verbs import READ, called_modes

    return called_modes <= {READ} if only_reads is None else only_reads


def print_refusal(program: CommandTable, refusal: errors.Refusal, json: bool) -> int:
    """Print a refusal, as JSON on standard output or as text on standard error. Return the exit code."""
    if not json or write_text(1, failure_json(refusal.command, refusal)) is not None:
        from postroom.cli.framework import terminal

        write_all(2, terminal.render_refusal(refusal))
    return exit_code(refusal)


def success_json(command: str, data: dict[str, Any]) -> str:
    return json_line({"ok": True, "schema_version": SCHEMA_VERSION, "command": command, **data})


def failure_json(command: str | None, refusal: errors.Refusal) -> str:
    error: dict[str, object] = {"code": refusal.code, "message": str(refusal), "hint": refusal.hint}
    error.update((name, value) for name, value in refusal.facts.items() if name not in error)
    return json_line({"ok": False, "schema_version": SCHEMA_VERSION, "command": command, "error": error})


def json_line(value: object) -> str:
    """Return a value as one line of JSON that cannot steer a terminal: control and other hidden characters are escaped."""
    text = dumps(value)
    if not text.isascii() or "\x7f" in text:
        from postroom.core.hidden_characters import escape_in_json

        text = escape_in_json(text)
    return text + "\n"


def exit_code(refusal: errors.Refusal) -> int:
    """Return the exit code of a refusal: of a process that a signal interrupted as shells report it, else as the table says."""
    signal = refusal.facts.get("signal") if isinstance(refusal, errors.Interrupted) else None
    if isinstance(signal, int):
        return 128 + signal
    return next((code for kind, code in EXIT_CODES if isinstance(refusal, kind)), TROUBLE)


def trouble_code(program: CommandTable) -> int:
    """Return the exit code of an answer that is lost."""
    return TROUBLE


def print_answer(text: str, recovery: str = "", *, only_reads: bool | None = None) -> bool:
    """Print the answer of a command. If that fails, say so on standard error, and return False.

    A reader that closed the pipe has seen what it wanted: that is no failure.
    """
    error = write_text(1, text)
    if error is None or isinstance(error, BrokenPipeError):
        return True
    done = "The answer" if _has_only_read(only_reads) else "The command did its work, but its answer"
    write_all(2, " ".join(filter(None, (f"{done} could not be printed: {error.strerror}.", recovery))) + "\n")
    return False


def write_all(descriptor: int, text: str) -> bool:
    """Write the whole text, and return whether that succeeded. A lost output never ends a command."""
    return write_text(descriptor, text) is None


def write_text(descriptor: int, text: str) -> OSError | None:
    """Write the whole text as UTF-8, whatever the locale. Waits for the reader of a non-blocking pipe. Return the error, if any."""
    data = text.encode(errors="backslashreplace")
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            _wait_until_writable(descriptor)
        except OSError as error:
            return error
    return None


def _wait_until_writable(descriptor: int) -> None:
    from select import POLLOUT, poll

    writable = poll()
    writable.register(descriptor, POLLOUT)
    writable.poll()


def keep_standard_descriptors() -> None:
    """Occupy closed standard descriptors, so that no file of the store gets their number. Reading or writing one still fails."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if descriptor else os.O_WRONLY)
