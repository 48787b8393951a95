"""The command `thread`."""

from __future__ import annotations

from postroom.cli import program
from postroom.cli.thread_table import THREAD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    program.leave(THREAD)


def run(argv: list[str]) -> int:
    return program.run(THREAD, argv)


if __name__ == "__main__":
    main()
