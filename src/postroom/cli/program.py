"""Every command line of the house: parse, call one verb, print, exit."""

from __future__ import annotations

import os
import sys

from postroom.cli import envelope
from postroom.cli.grammar import load
from postroom.cli.parsing import Arguments, parse
from postroom.core.errors import Refusal, StorageFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from postroom.cli.envelope import Outcome
    from postroom.cli.grammar import Program


def leave(program: Program) -> NoReturn:
    """Run this process's command line, and end it."""
    code = run(program, sys.argv[1:])
    # Everything is on disk and printed: leaving without tearing down the interpreter saves a fifth of a command.
    os._exit(code)


def run(program: Program, argv: list[str]) -> int:
    """One command line: what it prints, and its exit code. The only place that catches what was not foreseen."""
    args = None
    try:
        args = parse(program, argv)
        if args.help:
            return _help(args)
        outcome: Outcome = load(args.command)(args)  # type: ignore[assignment]
        _print(args, outcome)
        if outcome.after is not None:
            outcome.after()
        return outcome.exit_code
    except Refusal as refusal:
        if program.snake and "field" in refusal.facts:
            refusal.facts["field"] = str(refusal.facts["field"]).replace("-", "_")
        return _refuse(args, argv, refusal)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if os.environ.get("POSTROOM_DEBUG"):
            raise
        hint = "This is a fault of ours. POSTROOM_DEBUG=1 shows where; please report it."
        return _refuse(args, argv, StorageFailure(f"{type(error).__name__}: {error}", hint=hint))


def _print(args: Arguments, outcome: Outcome) -> None:
    if args.json:
        envelope.write(1, envelope.success(args.command.name, outcome.data))
    elif outcome.human:
        from postroom.cli import human

        envelope.write(1, human.picture(outcome.human, outcome.data))


def _refuse(args: Arguments | None, argv: list[str], refusal: Refusal) -> int:
    if args.json if args else "--json" in argv:
        envelope.write(1, envelope.failure(args.command.name if args else refusal.command, refusal))
    else:
        from postroom.cli import human

        envelope.write(2, human.refusal(refusal))
    return envelope.exit_code(refusal)


def _help(args: Arguments) -> int:
    from postroom.cli import manual

    envelope.write(1, manual.page(args.program, args.command.name, args.words))
    return envelope.OK
