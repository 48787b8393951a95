"""The command `mailbox`."""

from __future__ import annotations

from postroom.cli import program
from postroom.cli.mail_table import MAILBOX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    program.leave(MAILBOX)


def run(argv: list[str]) -> int:
    return program.run(MAILBOX, argv)


if __name__ == "__main__":
    main()
