"""Output of `thread` and `notifier`: data on standard output, everything else on standard error, as their document requires."""

from __future__ import annotations

from postroom.cli.framework.output import json_line, print_answer, write_all
from postroom.core.errors import Interrupted, InvalidInput, StoreTrouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from postroom.cli.framework.parser import Arguments
    from postroom.cli.framework.spec import CommandTable
    from postroom.core.errors import Refusal

OK, LOGIC, USAGE, TROUBLE = 0, 1, 2, 50


class PlainOutcome:
    """The result of a handler: `text` for people and pipes, `data` for --json.

    `trouble` is a refusal to report although the command itself did its work, for example a stored event without a dispatch. `note` is a
    line for people on standard error. `only_reads` is whether the answer is all that the command gives.
    """

    def __init__(
        self,
        text: str,
        data: dict[str, Any] | None = None,
        *,
        trouble: Refusal | None = None,
        note: str = "",
        only_reads: bool = False,
    ) -> None:
        self.text = text
        self.data = data
        self.trouble = trouble
        self.note = note
        self.only_reads = only_reads
        self.exit_code = OK
        self.after: Callable[[], None] | None = None


def print_outcome(args: Arguments, outcome: PlainOutcome) -> bool:
    """Print the data or text on standard output, and the trouble, if any, on standard error. Return whether it can be taken as seen."""
    text = json_line(outcome.data) if args.json and outcome.data is not None else outcome.text
    shown = not text or print_answer(text, only_reads=outcome.only_reads)
    if not shown and outcome.only_reads:
        outcome.exit_code = trouble_code(args.program)
    if outcome.note and not args.json:
        write_all(2, f"{outcome.note}\n")
    if outcome.trouble is not None:
        outcome.exit_code = print_refusal(args.program, outcome.trouble, args.json)
    return shown


def print_refusal(program: CommandTable, refusal: Refusal, json: bool) -> int:
    """Print a refusal with a suggestion on standard error. Return the exit code."""
    message = " ".join(str(refusal).split("\n"))
    full_name = f"{program.name} {refusal.command}" if refusal.command else program.name
    suggestion = refusal.hint or f"See `{full_name} --help`."
    write_all(2, json_line({"error": message, "suggestion": suggestion}) if json else f"Error: {message} - {suggestion}\n")
    return exit_code(program, refusal)


def exit_code(program: CommandTable, refusal: Refusal) -> int:
    """Return the exit code of a refusal."""
    if isinstance(refusal, Interrupted):
        return 128 + int(refusal.facts["signal"])  # type: ignore[call-overload, no-any-return]
    if isinstance(refusal, InvalidInput):
        return USAGE
    return trouble_code(program) if isinstance(refusal, StoreTrouble) else LOGIC


def trouble_code(program: CommandTable) -> int:
    """Return the exit code of storage trouble, and of an answer that is lost.

    Callers of the notifier rely on exit 1 to mean only "already queued" or "not there". Its trouble is therefore 50.
    """
    return TROUBLE if program.name == "notifier" else LOGIC
