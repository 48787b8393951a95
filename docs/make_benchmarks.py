"""Write docs/benchmarks.md and its plots from the results of `python -m bench`. Run as `python -m docs.make_benchmarks [RESULTS]`.

The page is a function of the results: nothing on it is typed by hand but the texts of docs/benchmark_groups.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from bench.ratios import Spread, pair_ratios, summarise
from bench.results import BYTES, CORE_SHARE, OURS, PER_SECOND, SECONDS, Measurement, Results, load_results
from docs.benchmark_groups import GROUPS, Group
from docs.benchmark_plots import Panel, Point, RatioRow, draw_panels, draw_ratios

FOLDER = Path(__file__).parent
RESULTS = Path(sys.prefix) / "bench" / "results.json"
PLOT_SIZE = 10_000  # of the plots that show one size
PLOT_PREFIXES = {"mail on SQLite": "SQLite: ", "PostgreSQL": "PostgreSQL: ", "mail over the network": "network: "}
LEAST_PLOTTED_SHARE = 0.0001
LEVEL = 0.95  # a median from here to its inverse is called level
Row = tuple[str, int, int]


def compute_ratio(ours: Measurement, other: Measurement) -> Spread:
    """Return how much faster (or smaller, where less is better) ours is, round by round. Below 1, the other is ahead."""
    if ours.unit == PER_SECOND:
        return summarise(pair_ratios(ours.values, other.values))
    # A process that did nothing in a window used 0: a millionth stands for it, so that the ratio exists.
    return summarise(pair_ratios([max(value, 1e-6) for value in other.values], [max(value, 1e-6) for value in ours.values]))


def write_page(results: Results, folder: Path = FOLDER) -> None:
    """Write the page and its plots below a folder."""
    (folder / "pictures").mkdir(exist_ok=True)
    for name, drawing in draw_plots(results).items():
        (folder / "pictures" / name).write_text(drawing)
    (folder / "benchmarks.md").write_text(render_page(results))


def render_page(results: Results) -> str:
    """Return the page."""
    parts = [
        "# Benchmarks",
        "`make bench` measured this and wrote this page (`python -m docs.make_benchmarks` writes it again). [speed.md](speed.md) has"
        " the bounds, what made it fast, and what was tried.",
        "**How to read a ratio.** Subjects take turns in rounds, and each round gives one ratio, so a busy moment of the machine hits"
        " both. `0.50 x (0.45 to 0.56)` is the median and the quartiles (half of the rounds lie between them) of at least five rounds."
        " A ratio is Postroom's speed divided by the other's: above 1, Postroom is faster (or uses less); **below 1, bold, another"
        " program is ahead**. Floors are the least that does the same work, so a ratio below 1 is expected there.",
        *_render_machine(results),
        *_render_peers_ahead(results),
    ]
    for group in GROUPS:
        parts += _render_group(results, group)
    parts += [
        "## Two commits side by side",
        "`make bench-compare BASE=COMMIT` runs the same blocks with two commits in turns and prints the ratio of their times with a"
        " confidence interval (sign test, 99.5 %). It marks a change of 10 % or more, and says `not resolved` where the noise was too"
        " high to see one.",
    ]
    return "\n\n".join(parts) + "\n"


def _render_machine(results: Results) -> list[str]:
    facts = ", ".join(f"{name} {value}" for name, value in results.machine.items())
    rows = [
        f"| {name} | {section.date} | {section.duration_seconds:.0f} s | {section.load_before:.1f} to {section.load_after:.1f} |"
        for name, section in results.sections.items()
        if section.measurements
    ]
    missing = sorted({peer for section in results.sections.values() for peer in section.missing})
    return [
        "## The machine and its load",
        f"{facts}.",
        *([results.note] if results.note else []),
        "A load average above the number of cores means that other work ran at the same time. Rates are lower then. A stall of the disk"
        " may hit one subject and not its neighbour, so where the quartiles are far apart, only the order of magnitude counts."
        " [speed.md](speed.md) has ratios that were measured on an idle machine.",
        "\n".join(["| section | date | duration | load average, before to after |", "|---|---|--:|--:|", *rows]),
        f"Left out, because this machine does not have it: {', '.join(missing)}." if missing else "No peer is left out.",
    ]


# Where another program is ahead


def _render_peers_ahead(results: Results) -> list[str]:
    """Return a bullet for each program that is ahead anywhere, with the operations, the medians and the reason."""
    bullets = []
    for group in GROUPS:
        rows = _rows_of(results, group)
        for peer, reason in group.reasons.items():
            ratios = [
                (key[0], compute_ratio(subjects[OURS], subjects[peer]).median)
                for key, subjects in rows.items()
                if OURS in subjects and peer in subjects
            ]
            behind = [one for one in ratios if one[1] < LEVEL]
            if behind:
                ahead = [one for one in ratios if one[1] > 1 / LEVEL]
                other = f" Postroom is ahead at {_name_ranges(ahead)}." if ahead else ""
                bullets.append(f"- **{peer}** ({group.key}) is ahead at {_name_ranges(behind)}.{other} Why: {reason}")
    pictures = (
        "![Ratios to other programs](pictures/benchmarks-ratios.svg)",
        "![Rates with 1 to 16 clients](pictures/benchmarks-clients.svg)",
    )
    return ["## Where another program is ahead", "\n".join(bullets) if bullets else "Nowhere in this run.", *pictures]


def _name_ranges(ratios: Iterable[tuple[str, float]]) -> str:
    by_operation: dict[str, list[float]] = {}
    for operation, ratio in ratios:
        by_operation.setdefault(operation, []).append(ratio)
    return "; ".join(f"{operation} ({_format_range(found)})" for operation, found in by_operation.items())


def _format_range(ratios: list[float]) -> str:
    low, high = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
    return f"{low} x" if low == high else f"{low} to {high} x"


# Tables


def _rows_of(results: Results, group: Group) -> dict[Row, dict[str, Measurement]]:
    """Return the subjects of each row, in the order in which they were measured."""
    rows: dict[Row, dict[str, Measurement]] = {}
    for measurement in results.measurements:
        if measurement.group == group.key:
            rows.setdefault(measurement.row, {})[measurement.subject] = measurement
    return rows


def _render_group(results: Results, group: Group) -> list[str]:
    rows = _rows_of(results, group)
    if not rows:
        return [f"## {group.title}", "Not measured in this run."]
    plot = {"mail on SQLite": "sizes", "waiters": "waiters"}.get(group.key)
    pictures = [f"![{group.title}](pictures/benchmarks-{plot}.svg)"] if plot else []
    table = _render_sizes(rows) if group.by_size else _render_subjects(rows, group)
    return [f"## {group.title}", group.text, *pictures, table]


def _render_subjects(rows: dict[Row, dict[str, Measurement]], group: Group) -> str:
    others = list(dict.fromkeys(subject for subjects in rows.values() for subject in subjects if subject != OURS))
    sized, crowded = any(row[1] for row in rows), any(row[2] > 1 for row in rows)
    head = ["operation", *([group.size_label] if sized else []), *([group.clients_label] if crowded else []), OURS, *others]
    lines = [f"| {' | '.join(head)} |", f"|---|{'--:|' * (len(head) - 1)}"]
    for (operation, size, clients), subjects in _sort_rows(rows):
        ours = subjects[OURS]
        cells = [operation, *([f"{size:,}" if size else ""] if sized else []), *([f"{clients:,}"] if crowded else []), _format_values(ours)]
        cells += [_format_other(ours, subjects[other], other in group.reasons) if other in subjects else "" for other in others]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _sort_rows(rows: dict[Row, dict[str, Measurement]]) -> list[tuple[Row, dict[str, Measurement]]]:
    """Return the rows with the operations in their order, and each by size and clients."""
    operations = list(dict.fromkeys(row[0] for row in rows))
    return sorted(rows.items(), key=lambda item: (operations.index(item[0][0]), item[0][1], item[0][2]))


def _format_other(ours: Measurement, other: Measurement, is_peer: bool) -> str:
    ratio = compute_ratio(ours, other)
    text = f"{ratio.median:.2f} x"
    return f"{_format_values(other)}; {f'**{text}**' if is_peer and ratio.median < 1 else text} ({ratio.low:.2f} to {ratio.high:.2f})"


def _render_sizes(rows: dict[Row, dict[str, Measurement]]) -> str:
    sizes = sorted({row[1] for row in rows})
    lines = [f"| operation | {' | '.join(f'{size:,}' for size in sizes)} |", f"|---|{'--:|' * len(sizes)}"]
    for operation in dict.fromkeys(row[0] for row in rows):
        found = {size: rows[operation, size, 1][OURS] for size in sizes if (operation, size, 1) in rows}
        smallest = found[min(found)]
        lines.append(f"| {operation} | {' | '.join(_format_growth(found.get(size), smallest) for size in sizes)} |")
    return "\n".join(lines)


def _format_growth(measurement: Measurement | None, smallest: Measurement) -> str:
    if measurement is None:
        return ""
    if measurement is smallest:
        return _format_values(measurement)
    growth = summarise(pair_ratios(measurement.values, smallest.values))
    return f"{_format_values(measurement)}; {growth.median:.2f} x ({growth.low:.2f} to {growth.high:.2f})"


def _format_values(measurement: Measurement) -> str:
    value = summarise(measurement.values).median
    if measurement.unit == PER_SECOND:
        return f"{value:,.0f} / s"
    if measurement.unit == SECONDS:
        return f"{value * 1000:.3g} ms" if value < 0.9995 else f"{value:.3g} s"
    if measurement.unit == CORE_SHARE:
        return f"{value:.2%}"
    assert measurement.unit == BYTES
    return f"{value / (1 << 20):,.1f} MiB"


# Plots


def draw_plots(results: Results) -> dict[str, str]:
    """Return the SVG files by name."""
    rows = [row for group in GROUPS if group.reasons and group.key != "waiters" for row in _ratio_rows(results, group)]
    title = "Speed of Postroom / speed of the other program: below 1, the other is ahead"
    return {
        "benchmarks-ratios.svg": draw_ratios(title, rows),
        "benchmarks-sizes.svg": draw_panels(_panels(results, "mail on SQLite", by_size=True), "waiting"),
        "benchmarks-clients.svg": draw_panels(
            {
                **_panels(results, "mail on SQLite", by_size=False),
                **_panels(results, "PostgreSQL", by_size=False),
                **_panels(results, "mail over the network", by_size=False, only=("Unix socket", "credit for 50")),
            },
            "clients",
        ),
        "benchmarks-waiters.svg": draw_panels(_panels(results, "waiters", by_size=False), "waiters"),
    }


def _ratio_rows(results: Results, group: Group) -> list[RatioRow]:
    """Return the ratios to other programs, at one size and with the fewest and the most clients."""
    found = []
    for (operation, size, clients), subjects in _rows_of(results, group).items():
        if size in (0, PLOT_SIZE) and clients in (1, 16) and OURS in subjects:
            for peer in group.reasons.keys() & subjects:
                where = f"{operation}, {clients} clients" if clients > 1 else operation
                place = "" if group.key == "mail on SQLite" else f"{group.key}: " if group.key == "PostgreSQL" else ""
                label = f"{place}{where}: {peer.partition(',')[0]}"
                found.append(RatioRow(label, peer.partition(",")[0], *compute_ratio(subjects[OURS], subjects[peer])))
    return sorted(found, key=lambda row: row.label)


def _panels(results: Results, key: str, *, by_size: bool, only: tuple[str, ...] = ()) -> dict[str, Panel]:
    """Return a panel for each operation that was measured at more than one size (or with more than one number of clients)."""
    lines: dict[str, dict[str, list[Point]]] = {}
    for one in results.measurements:
        if one.group == key and (not only or any(word in one.operation for word in only)):
            least = LEAST_PLOTTED_SHARE if one.unit == CORE_SHARE else 0.0  # a logarithmic axis has no 0
            value = summarise([max(value, least) for value in one.values])
            unit = {PER_SECOND: "a second", SECONDS: "seconds", BYTES: "bytes", CORE_SHARE: "share of a core"}[one.unit]
            title = f"{PLOT_PREFIXES.get(key, '')}{one.operation}, {unit}"
            lines.setdefault(title, {}).setdefault(one.subject.partition(",")[0], []).append(
                Point(one.size if by_size else one.clients, *value)
            )
    return {
        title: {subject: sorted(points) for subject, points in series.items()}
        for title, series in lines.items()
        if len({point.x for points in series.values() for point in points}) > 1
    }


if __name__ == "__main__":
    write_page(load_results(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS))
