"""Writes docs/reference/inbox.md from the table of commands. A test compares."""

from __future__ import annotations

from pathlib import Path

from postroom.cli.manual import EXITS, command_page, overview
from postroom.cli.table import COMMANDS

PAGE = Path(__file__).parent / "reference" / "inbox.md"


def reference() -> str:
    parts = ["# The command `inbox`\n", "Made by `make reference` from the table of commands; do not edit.\n", f"{EXITS}\n"]
    parts.append(f"```text\n{overview()}```\n")
    parts += [f"## inbox {command.name}\n\n```text\n{command_page(command)}```\n" for command in COMMANDS.values()]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
