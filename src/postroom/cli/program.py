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
    from typing import NoReturn, Protocol

    from postroom.cli.envelope import Outcome
    from postroom.cli.grammar import Program

    class Manner(Protocol):
        """How a program answers: the shape of its JSON, its words for people, its exit codes."""

        def show(self, args: Arguments, outcome: Outcome) -> None: ...

        def refuse(self, program: Program, refusal: Refusal, json: bool) -> int: ...


def leave(program: Program) -> NoReturn:
    """Run this process's command line, and end it."""
    code = run(program, sys.argv[1:])
    # Everything is on disk and printed: leaving without tearing down the interpreter saves a fifth of a command.
    os._exit(code)


def run(program: Program, argv: list[str]) -> int:
    """One command line: what it prints, and its exit code. The only place that catches what was not foreseen."""
    args = None
    manner = __import__(f"postroom.cli.{program.manner}", fromlist=("show", "refuse"))
    try:
        args = parse(program, argv)
        if args.help:
            return _help(args)
        outcome: Outcome = load(args.command)(args)  # type: ignore[assignment]
        manner.show(args, outcome)
        if outcome.after is not None:
            outcome.after()
        return outcome.exit_code
    except Refusal as refusal:
        if program.snake and "field" in refusal.facts:
            refusal.facts["field"] = str(refusal.facts["field"]).replace("-", "_")
        return _refuse(manner, program, args, argv, refusal)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if os.environ.get("POSTROOM_DEBUG"):
            raise
        hint = "This is a fault of ours. POSTROOM_DEBUG=1 shows where; please report it."
        return _refuse(manner, program, args, argv, StorageFailure(f"{type(error).__name__}: {error}", hint=hint))


def _refuse(manner: Manner, program: Program, args: Arguments | None, argv: list[str], refusal: Refusal) -> int:
    if args is not None:
        refusal.command = args.command.name
    return manner.refuse(program, refusal, args.json if args else "--json" in argv)


def _help(args: Arguments) -> int:
    from postroom.cli import manual

    envelope.write(1, manual.page(args.program, args.command.name, args.words, verbose=bool(args.values.get("verbose"))))
    return envelope.OK
