"""Run a command line of any program: parse it, call the handler, print the answer, exit. Called by each `entry.py`."""

from __future__ import annotations

import os
import sys

from postroom.cli.framework import output
from postroom.cli.framework.parser import Arguments, parse
from postroom.cli.framework.spec import load_handler
from postroom.core.errors import Refusal, StorageFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, Protocol

    from postroom.cli.framework.output import Outcome
    from postroom.cli.framework.spec import CommandTable

    class OutputFormat(Protocol):
        """The interface of an output module: the shape of the JSON, the text for people, and the exit codes."""

        def print_outcome(self, args: Arguments, outcome: Outcome) -> bool: ...

        def print_refusal(self, program: CommandTable, refusal: Refusal, json: bool) -> int: ...


GC_THRESHOLD_OBJECTS = 20_000  # between two garbage collections; most commands end before the first one


def run_and_exit(program: CommandTable) -> NoReturn:
    """Run the command line of this process and exit."""
    import gc

    gc.set_threshold(GC_THRESHOLD_OBJECTS)
    output.keep_standard_descriptors()
    code = run_command(program, sys.argv[1:])
    # Everything is on disk and printed. Skipping the interpreter's teardown saves a fifth of the time of a command.
    os._exit(code)


def run_command(program: CommandTable, argv: list[str]) -> int:
    """Run one command line, print its answer and return its exit code. Only this function catches unexpected exceptions."""
    args = None
    output_module = __import__(f"postroom.cli.{program.output_module}", fromlist=("print_outcome", "print_refusal"))
    try:
        args = parse(program, argv)
        if args.help:
            return _print_help(args)
        outcome: Outcome = load_handler(args.command)(args)  # type: ignore[assignment]
        shown = output_module.print_outcome(args, outcome)
        if shown and outcome.after is not None:
            outcome.after()
        return outcome.exit_code
    except Refusal as refusal:
        if program.snake_case_fields and "field" in refusal.facts:
            refusal.facts["field"] = str(refusal.facts["field"]).replace("-", "_")
        return _print_refusal(output_module, program, args, argv, refusal)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if os.environ.get("POSTROOM_DEBUG"):
            raise
        hint = "This is a bug in Postroom. POSTROOM_DEBUG=1 shows where; please report it."
        return _print_refusal(output_module, program, args, argv, StorageFailure(f"{type(error).__name__}: {error}", hint=hint))


def _print_refusal(output_module: OutputFormat, program: CommandTable, args: Arguments | None, argv: list[str], refusal: Refusal) -> int:
    if args is not None:
        refusal.command = args.command.name
    return output_module.print_refusal(program, refusal, args.json if args else "--json" in argv)


def _print_help(args: Arguments) -> int:
    from postroom.cli.framework.help import help_page

    output.print_answer(help_page(args.program, args.command.name, args.words, verbose=bool(args.values.get("verbose"))))
    return output.OK
