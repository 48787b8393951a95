"""Run a command line of any program: parse it, call the handler, print the answer, exit. Called by each `entry.py`."""

from __future__ import annotations

import os
import sys

from postroom.cli.framework import output
from postroom.cli.framework.parser import Arguments, parse
from postroom.cli.framework.spec import load_function
from postroom.core.errors import NotFound, Refusal, StorageFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn, Protocol

    from postroom.cli.framework.output import Outcome
    from postroom.cli.framework.spec import CommandTable

    class OutputFormat(Protocol):
        """The interface of an output module: the shape of the JSON, the text for people, and the exit codes."""

        def print_outcome(self, args: Arguments, outcome: Outcome) -> bool: ...

        def print_refusal(self, program: CommandTable, refusal: Refusal, json: bool) -> int: ...

        def trouble_code(self, program: CommandTable) -> int: ...


ASK = "__complete"  # the first word of the command lines that completion scripts run


def run_and_exit(program: CommandTable) -> NoReturn:
    """Run the command line of this process and exit."""
    if sys.getfilesystemencoding() != "utf-8":
        _restart_with_utf8()
    output.keep_standard_descriptors()
    code = run_command(program, sys.argv[1:])
    # Everything is on disk and printed. Skipping the interpreter's teardown saves a fifth of the time of a command.
    os._exit(code)


def _restart_with_utf8() -> None:
    """Start this process again with UTF-8 for arguments, paths and output, whatever the locale is: it cannot be changed later."""
    try:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606
    except OSError:
        pass  # go on with the encoding of the locale


def run_command(program: CommandTable, argv: list[str]) -> int:
    """Run one command line, print its answer and return its exit code. Only this function catches unexpected exceptions."""
    args = None
    output_module = __import__(f"postroom.cli.{program.output_module}", fromlist=("print_outcome", "print_refusal"))
    try:
        if argv[:1] == [ASK]:
            return _print_candidates(program, argv[1:])
        args = parse(program, argv)
        if args.help or not argv:
            return _print_help(output_module, args)
        outcome = _call_handler(program, args)
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


def _call_handler(program: CommandTable, args: Arguments) -> Outcome:
    """Call the handler of a command. If it finds nothing by an id, complete the id if it is short for just one, and call again."""
    handler: Callable[[Arguments], Outcome] = load_function(args.command.handler)
    try:
        return handler(args)
    except NotFound:
        if not program.id_expander or not load_function(program.id_expander)(args):
            raise
    return handler(args)


def _print_refusal(output_module: OutputFormat, program: CommandTable, args: Arguments | None, argv: list[str], refusal: Refusal) -> int:
    if args is not None:
        refusal.command = args.command.name
        if verb := refusal.facts.get("verb"):  # a server refused it: people know the command, not the function behind it
            refusal.args = (str(refusal).replace(f"call {verb}", f"run `{program.name} {args.command.name}`"),)
    if any("://" in word for word in argv):  # an address in a wrong place is repeated like any other word
        from postroom.core.text import hide_passwords

        refusal.args, refusal.hint = (hide_passwords(str(refusal)),), hide_passwords(refusal.hint)
        refusal.facts.update({name: hide_passwords(fact) for name, fact in refusal.facts.items() if isinstance(fact, str)})
    return output_module.print_refusal(program, refusal, args.json if args else "--json" in argv)


def _print_candidates(program: CommandTable, words: list[str]) -> int:
    from postroom.cli.framework.candidates import list_candidates

    lines = [f"{word}\t{about}" if about else word for word, about in list_candidates(program, words)]
    output.print_answer("".join(f"{line}\n" for line in lines))
    return output.OK


def _print_help(output_module: OutputFormat, args: Arguments) -> int:
    from postroom.cli.framework.help import help_page, start_page

    if not args.help and args.program.first_commands:
        page = start_page(args.program)
    else:
        page = help_page(args.program, args.command.name, args.words, verbose=bool(args.values.get("verbose")))
    return output.OK if output.print_answer(page, only_reads=True) else output_module.trouble_code(args.program)
