"""Writes docs/reference: a page a command, from its table, openapi.json and asyncapi.json. A test compares."""

from __future__ import annotations

import json
from pathlib import Path

from postroom.cli.grammar import Program
from postroom.cli.mail_table import MAILBOX
from postroom.cli.manual import command_page, overview
from postroom.cli.notifier_table import NOTIFIER
from postroom.cli.table import INBOX
from postroom.cli.thread_table import THREAD

FOLDER = Path(__file__).parent / "reference"
PROGRAMS = (INBOX, MAILBOX, THREAD, NOTIFIER)


def reference(program: Program) -> str:
    parts = [
        f"# The command `{program.name}`\n",
        "Made by `make reference` from the table of commands; do not edit.\n",
        f"{program.exits}\n",
    ]
    parts.append(f"```text\n{overview(program)}```\n")
    for command in program.commands.values():
        parts.append(f"## {program.name} {command.name}\n\n```text\n{command_page(program, command)}```\n")
    return "\n".join(parts)


def openapi() -> str:
    """The description of the server's HTTP interface, for tools that read it."""
    from postroom.server.openapi import description

    return json.dumps(description(), indent=1, ensure_ascii=False) + "\n"


def asyncapi() -> str:
    """The same of the mailbox's WebSocket."""
    from postroom.server.asyncapi import description

    return json.dumps(description(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for program in PROGRAMS:
        (FOLDER / f"{program.name}.md").write_text(reference(program), encoding="utf-8")
    (FOLDER / "openapi.json").write_text(openapi(), encoding="utf-8")
    (FOLDER / "asyncapi.json").write_text(asyncapi(), encoding="utf-8")
