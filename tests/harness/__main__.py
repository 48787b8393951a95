"""Run scenarios with real programs: python -m tests.harness [--harness NAME]... [--transport http|stdio]... [SCENARIO]..."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from tests.harness.harnesses import HARNESSES
from tests.harness.measured import MEASURED
from tests.harness.scenarios import ALONE, SCENARIOS

PAGE = Path(__file__).parents[2] / "docs" / "harnesses.md"
MAX_SEEN_CHARS = 80
Row = tuple[str, str, str, bool, str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", nargs="*", default=list(SCENARIOS), help=", ".join((*SCENARIOS, *MEASURED)))
    parser.add_argument("--harness", action="append", choices=list(HARNESSES))
    parser.add_argument("--transport", action="append", choices=["http", "stdio"])
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--write-table", action="store_true", help="write what was seen into docs/harnesses.md")
    parser.add_argument(
        "--table-of", nargs="+", type=Path, metavar="FILE", help="run nothing: write that table from what --json printed in parts"
    )
    given = parser.parse_args()
    if given.table_of:
        write_table([row for path in given.table_of for row in _read_rows(path)])
        return 0
    rows: list[Row] = []
    for scenario in given.scenario:
        for harness in ["none"] if scenario in ALONE else given.harness or HARNESSES:
            for transport in given.transport or ["http"]:
                for what, held, seen in {**SCENARIOS, **MEASURED}[scenario](harness, transport):
                    rows.append((scenario, harness, what, held, seen))
                    where = {"scenario": scenario, "harness": harness, "transport": transport}
                    line = f"{'ok  ' if held else 'FAIL'}  {scenario:11} {harness:9} {transport:6} {what:40} {seen}"
                    print(json.dumps({**where, "what": what, "held": held, "seen": seen}) if given.json else line, flush=True)
    if given.write_table:
        write_table(rows)
    return 0 if all(row[3] for row in rows) else 1


def _read_rows(path: Path) -> list[Row]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [(row["scenario"], row["harness"], row["what"], row["held"], row["seen"]) for row in found]


def _shorten(seen: str) -> str:
    """Return what was seen, if it is short enough for a table. Answers of tools are not."""
    return "" if len(seen) > MAX_SEEN_CHARS or "{" in seen else seen


def write_table(rows: list[Row]) -> None:
    """Replace the table between the markers of the page. Rows of parts are put into the order of a whole run."""
    order = [*SCENARIOS, *MEASURED]
    rows.sort(key=lambda row: order.index(row[0]))
    versions = " ".join((Path(__file__).parent / "programs.txt").read_text().split())
    lines = [f"Programs: {versions}.", "", "| scenario | program | what | held | seen |", "|---|---|---|---|---|"]
    lines += [
        f"| {scenario} | {harness} | {what} | {'yes' if held else '**no**'} | {_shorten(seen)} |"
        for scenario, harness, what, held, seen in rows
    ]
    text = "\n".join(lines)
    begin, end = "<!-- harness table: begin -->", "<!-- harness table: end -->"
    page = re.sub(f"{begin}.*{end}", lambda _: f"{begin}\n{text}\n{end}", PAGE.read_text(), flags=re.DOTALL)
    PAGE.write_text(page)


if __name__ == "__main__":
    sys.exit(main())
