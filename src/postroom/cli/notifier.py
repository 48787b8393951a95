"""The command `notifier`."""

from __future__ import annotations

from postroom.cli import program
from postroom.cli.notifier_table import NOTIFIER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    program.leave(NOTIFIER)


def run(argv: list[str]) -> int:
    return program.run(NOTIFIER, argv)


if __name__ == "__main__":
    main()
