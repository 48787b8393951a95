"""`python -m bench [--results FILE] [SECTION …]`: all sections, or those named. Prints a table and keeps the measurements in the file."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from bench.report import Report
from bench.results import Results, describe_machine, load_results
from bench.scale import QUICK

RESULTS = Path(sys.prefix) / "bench" / ("quick.json" if QUICK else "results.json")
SECTIONS = (
    "commands",
    "agents",
    "waking",
    "waiters",
    "writers",
    "retention",
    "backup",
    "library",
    "mail",
    "queues",
    "tasks",
    "server",
    "large_thread",
    "hostile",
    "sockets",
    "page",
    "postgres",
)
QUICK_SECTIONS = (
    "commands",
    "waking",
    "library",
    "mail",
    "queues",
    "tasks",
    "retention",
    "backup",
    "sockets",
    "postgres",
)  # those that QUICK=1 makes short
LONG_SECTIONS = ("million",)  # a quarter of an hour each: only if they are named


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"{', '.join(SECTIONS)}; only if named: {', '.join(LONG_SECTIONS)}")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--note", default="", help="a sentence for the page, for example about other work on the machine")
    options = parser.parse_args(argv)
    unknown = sorted(set(options.sections) - set(SECTIONS + LONG_SECTIONS))
    if unknown:
        print(f"There is no section {unknown[0]}. Known: {', '.join(SECTIONS)}.", file=sys.stderr)
        return 2
    report = Report()
    report.machine()
    results = Results(describe_machine(), load_results(options.results).sections if options.results.exists() else {}, options.note)
    for name in options.sections or (QUICK_SECTIONS if QUICK else SECTIONS):
        with report.collect() as collected:
            import_module(f"bench.{name}").run(report)
        print(f"  ({name}: {collected.duration_seconds:.0f} s)")
        results.sections[name] = collected
        results.save(options.results)
    print(f"\n{report.missed} bounds missed" if report.missed else "\nEvery bound was met.")
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
