"""`python -m bench [SECTION …]`: all of them, or those named."""

from __future__ import annotations

import sys

from bench import commands, hostile, large_thread, library, mail, page, postgres, queues, server, sockets, tasks, waking, writers
from bench.report import Report

SECTIONS = {
    "commands": commands.run,
    "waking": waking.run,
    "writers": writers.run,
    "library": library.run,
    "mail": mail.run,
    "queues": queues.run,
    "tasks": tasks.run,
    "server": server.run,
    "large_thread": large_thread.run,
    "hostile": hostile.run,
    "sockets": sockets.run,
    "page": page.run,
    "postgres": postgres.run,
}


def main(wanted: list[str]) -> int:
    unknown = sorted(set(wanted) - set(SECTIONS))
    if unknown:
        print(f"There is no section {unknown[0]}. Known: {', '.join(SECTIONS)}.", file=sys.stderr)
        return 2
    report = Report()
    report.machine()
    for name, section in SECTIONS.items():
        if not wanted or name in wanted:
            section(report)
    print(f"\n{report.missed} bounds missed" if report.missed else "\nEvery bound was met.")
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
