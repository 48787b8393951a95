"""Small multiples as one SVG file: a panel for each measurement, with its line through time and its trend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

WIDTH, HEIGHT, COLUMNS, MARGIN = 360, 150, 2, 16
INK, GRID, COLOURS = "#57606a", "#d0d7de", ("#0969da", "#bf3989", "#1a7f37")
Series = Mapping[str, Sequence[float]]


def draw_panels(path: Path, title: str, times: Sequence[float], panels: Mapping[str, Series]) -> None:
    """Write the file. Each panel has one or a few series over the same times, in seconds."""
    rows = (len(panels) + COLUMNS - 1) // COLUMNS
    width, height = COLUMNS * (WIDTH + MARGIN) + MARGIN, rows * (HEIGHT + MARGIN) + 44
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" font-size="11">']
    parts.append(f'<rect width="100%" height="100%" fill="#ffffff"/><text x="{MARGIN}" y="24" font-size="14">{escape(title)}</text>')
    for index, (name, series) in enumerate(panels.items()):
        x, y = MARGIN + index % COLUMNS * (WIDTH + MARGIN), 40 + index // COLUMNS * (HEIGHT + MARGIN)
        parts.append(f'<g transform="translate({x} {y})">{_draw_panel(name, times, series)}</g>')
    path.write_text("\n".join([*parts, "</svg>\n"]))


def _draw_panel(name: str, times: Sequence[float], series: Series) -> str:
    highest = max((value for values in series.values() for value in values), default=0) or 1
    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="{GRID}"/>']
    parts.append(f'<text x="6" y="14" fill="{INK}">{escape(name)}, up to {highest:,.4g}, {times[-1] if times else 0:.0f} s</text>')
    for number, (label, values) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(
            f"{time / (times[-1] or 1) * WIDTH:.1f},{HEIGHT - value / highest * (HEIGHT - 30):.1f}" for time, value in zip(times, values)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(f'<text x="{WIDTH - 6}" y="{14 + 13 * number}" fill="{colour}" text-anchor="end">{escape(label)}</text>')
    return "".join(parts)
