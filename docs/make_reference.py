"""Writes docs/reference and docs/man: pages of commands from their tables, of the library, openapi.json, asyncapi.json. A test compares."""

from __future__ import annotations

import json
from pathlib import Path

from docs.make_library_pages import front_door_manual_page, manual_page, python_api
from postroom.cli.framework.help import command_page, overview_page
from postroom.cli.framework.spec import CommandTable
from postroom.cli.inbox.spec import INBOX
from postroom.cli.mailbox.spec import MAILBOX
from postroom.cli.notifier.spec import NOTIFIER
from postroom.cli.thread.spec import THREAD

FOLDER = Path(__file__).parent / "reference"
MANUAL = Path(__file__).parent / "man"
PROGRAMS = (INBOX, MAILBOX, THREAD, NOTIFIER)


def reference(program: CommandTable) -> str:
    parts = [
        f"# The command `{program.name}`\n",
        "Made by `make reference` from the table of commands; do not edit.\n",
        f"{program.exit_codes_text}\n",
    ]
    parts.append(f"```text\n{overview_page(program)}```\n")
    for command in program.commands.values():
        parts.append(f"## {program.name} {command.name}\n\n```text\n{command_page(program, command)}```\n")
    return "\n".join(parts)


def openapi() -> str:
    """The description of the server's HTTP interface, for tools that read it."""
    from postroom.server.api.schemas.openapi import build_description

    return json.dumps(build_description(), indent=1, ensure_ascii=False) + "\n"


def asyncapi() -> str:
    """The same of the mailbox's WebSocket."""
    from postroom.server.api.schemas.asyncapi import build_description

    return json.dumps(build_description(), indent=1, ensure_ascii=False) + "\n"


def verbs() -> str:
    """Return the page of verbs, from their declarations."""
    from postroom.server.rpc.reference import reference_page

    return reference_page()


def permissions() -> str:
    """Return the page of permissions, from the declarations of the verbs."""
    from postroom.server.rpc.permission_table import permissions_page

    return permissions_page()


if __name__ == "__main__":
    for program in PROGRAMS:
        (FOLDER / f"{program.name}.md").write_text(reference(program), encoding="utf-8")
        (MANUAL / f"{program.name}.1").write_text(manual_page(program), encoding="utf-8")
    (MANUAL / "postroom.1").write_text(front_door_manual_page(), encoding="utf-8")
    (FOLDER / "python.md").write_text(python_api(), encoding="utf-8")
    (FOLDER / "verbs.md").write_text(verbs(), encoding="utf-8")
    (FOLDER.parent / "permissions.md").write_text(permissions(), encoding="utf-8")
    (FOLDER / "openapi.json").write_text(openapi(), encoding="utf-8")
    (FOLDER / "asyncapi.json").write_text(asyncapi(), encoding="utf-8")
