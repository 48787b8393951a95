"""Pages that `make reference` writes from docstrings and command tables: the Python API, and manual pages in roff."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

from postroom.cli.framework.spec import CommandTable, Flag
from postroom.core import records
from postroom.core.records import Record
from postroom.core.rpc import wire

ROOMS = ("work", "people", "mail", "queues", "tasks")


def python_api() -> str:
    """Return the page of the Python library: every public name of the package and its rooms, with its docstring, and the records."""
    import postroom

    parts = [
        "# The Python library\n",
        "Made by `make reference` from the docstrings; do not edit. [The guide](../guides/python.md) shows how to use it.\n",
        "The same text is in `help(postroom.work)`; `dir(postroom.work)` lists the verbs.\n",
        "## postroom\n",
    ]
    parts += [_describe("postroom", name, getattr(postroom, name)) for name in ("open", "connect", "init")]
    for room in ROOMS:
        package = importlib.import_module(f"postroom.{room}")
        parts.append(f"## postroom.{room}\n")
        parts.append((inspect.getdoc(package) or "").partition("\n")[0] + "\n")
        module_of_name = next(value for name, value in vars(package).items() if name.startswith("_MODULE_OF"))
        parts += [_describe(room, name, getattr(package, name)) for name in sorted(module_of_name)]
    parts.append("## Records\n")
    parts.append(
        "What verbs return, and what is in it. Records are immutable; `to_json()` makes a dictionary of one, `replace()` a copy.\n"
    )
    parts += [_describe_record(record) for record in _list_returned_records(parts)]
    return "\n".join(parts)


def _list_returned_records(signatures: list[str]) -> list[type[Record]]:
    """Return the records that signatures name, and those of which they consist, by name."""
    for module in pkgutil.iter_modules(records.__path__, f"{records.__name__}."):
        importlib.import_module(module.name)
    known = {record.__name__: record for record in wire.record_classes()}
    found: dict[str, type[Record]] = {}
    texts = re.findall(r"-> ([^\n]*)", "\n".join(signatures))
    while texts:
        new = {word for word in re.findall(r"\w+", texts.pop()) if word in known and word not in found}
        found.update((name, known[name]) for name in new)
        texts += [str(annotation) for name in new for annotation in _fields_of(known[name]).values()]
    return [found[name] for name in sorted(found)]


def _fields_of(record: type[Record]) -> dict[str, str]:
    """Return the annotations of a record's fields, also of those that it inherits."""
    annotations = {name: text for owner in reversed(record.__mro__) for name, text in vars(owner).get("__annotations__", {}).items()}
    return {name: annotations[name] for name in record.__fields__}


def _describe_record(record: type[Record]) -> str:
    fields = [
        f"{name}: {text}" + (f" = {getattr(record, name)!r}" if hasattr(record, name) else "") for name, text in _fields_of(record).items()
    ]
    computed = [
        f"- `{name}`: {(inspect.getdoc(value) or '').partition(chr(10))[0]}"
        for name, value in inspect.getmembers(record, lambda value: isinstance(value, property))
    ]
    parts = [f"### `{record.__name__}`", inspect.getdoc(record) or "", "```text\n" + "\n".join(fields) + "\n```", "\n".join(computed)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _describe(owner: str, name: str, value: object) -> str:
    text = inspect.getdoc(value) or ""
    if not inspect.isfunction(value):
        return f"### `{owner}.{name}`\n\n{text.partition(chr(10) * 2)[0]}\n"
    signature = re.sub(r"(?<=[:>] )'([^']*)'", r"\1", str(inspect.signature(value)))
    signature = re.sub(r"<function (\w+) at 0x[0-9a-f]+>", r"\1", signature)
    return f"### `{owner}.{name}`\n\n```text\n{name}{signature}\n```\n\n{text}\n"


def manual_page(program: CommandTable) -> str:
    """Return the manual page of a program, in the macros that every `man` knows."""
    parts = [f'.TH {program.name.upper()} 1 "" postroom "User Commands"', ".SH NAME", f"{program.name} \\- {_roff(program.about)}"]
    parts += [".SH SYNOPSIS", f".B {program.name}", "COMMAND [FLAGS]", ".SH COMMANDS"]
    for command in program.commands.values():
        words = "".join(f" {word}" for word in command.words)
        parts += [f'.SS "{program.name} {command.name}{_roff(words)}"', _roff(command.summary)]
        parts += [".PP", _roff(command.details)] if command.details else []
        parts += [line for flag in command.flags for line in _describe_flag(flag)]
        parts += [".PP", "Example:", ".RS", ".nf", _roff(command.example), ".fi", ".RE"] if command.example else []
    parts += [".SH FLAGS OF EVERY COMMAND", *(line for flag in program.flags for line in _describe_flag(flag))]
    return "\n".join([*parts, ".SH EXIT STATUS", _roff(program.exit_codes_text), ".SH ENVIRONMENT", "See docs/environment.md."]) + "\n"


def front_door_manual_page() -> str:
    """Return the manual page of `postroom`, whose own page lists the other programs."""
    from postroom.cli.front_door import PAGE, PROGRAMS

    name, _, about = PAGE.partition("\n")[0].partition(": ")
    rows = [line.split(maxsplit=1) for line in PAGE.splitlines() if line.startswith("  ")]
    parts = [f'.TH {name.upper()} 1 "" postroom "User Commands"', ".SH NAME", f"{name} \\- {_roff(about)}"]
    parts += [".SH SYNOPSIS", f".B {name}", "PROGRAM COMMAND [FLAGS]", ".SH PROGRAMS"]
    parts += [line for program, use in rows for line in (".TP", f"\\fB{program}\\fR", _roff(use))]
    parts += [".PP", _roff(PAGE.splitlines()[-1]), ".SH SEE ALSO", ", ".join(f"\\fB{program}\\fR(1)" for program in PROGRAMS)]
    return "\n".join(parts) + "\n"


def _describe_flag(flag: Flag) -> list[str]:
    return [".TP", f"\\fB{_roff(flag.name)}\\fR {_roff(flag.metavar)}".rstrip(), _roff(flag.help)]


def _roff(text: str) -> str:
    """Return a text that roff prints as it is: no escapes, no hyphens that it would turn, no line that begins as a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text
