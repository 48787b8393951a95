"""The command `inbox`."""

from __future__ import annotations

from postroom.cli import program
from postroom.cli.table import INBOX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    program.leave(INBOX)


def run(argv: list[str]) -> int:
    return program.run(INBOX, argv)


if __name__ == "__main__":
    main()
