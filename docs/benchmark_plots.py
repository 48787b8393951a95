"""Plots of docs/benchmarks.md as SVG, readable on light and on dark: lines on logarithmic axes in panels, and ratios with their spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

PANEL_WIDTH, PANEL_HEIGHT, COLUMNS, MARGIN = 400, 230, 2, 16
PLOT_LEFT, PLOT_TOP, PLOT_BOTTOM = 52, 30, 26  # room for labels inside a panel
RATIO_WIDTH, RATIO_LABEL_WIDTH, RATIO_ROW_HEIGHT = 816, 400, 18
COLOURS = 8
STYLE = """<style>
svg { --ink: #1f2328; --soft: #57606a; --grid: #d0d7de; --ground: #ffffff;
  --c0: #0969da; --c1: #bc4c00; --c2: #1a7f37; --c3: #8250df; --c4: #bf3989; --c5: #57606a; --c6: #9a6700; --c7: #1b7c83; }
@media (prefers-color-scheme: dark) { svg { --ink: #e6edf3; --soft: #9198a1; --grid: #3d444d; --ground: #0d1117;
  --c0: #4493f8; --c1: #f0883e; --c2: #3fb950; --c3: #ab7df8; --c4: #db61a2; --c5: #9198a1; --c6: #d29922; --c7: #39c5cf; } }
text { fill: var(--ink); font: 11px system-ui, sans-serif; } .soft { fill: var(--soft); } .title { font-weight: 600; }
.grid { stroke: var(--grid); } .frame { fill: none; stroke: var(--grid); }
.line { fill: none; stroke-width: 2; } .whisker { stroke-width: 2; }
</style>"""


class Point(NamedTuple):
    """A median with its spread."""

    x: float
    median: float
    low: float
    high: float


class RatioRow(NamedTuple):
    """One ratio of `draw_ratios`."""

    label: str
    series: str
    median: float
    low: float
    high: float


Panel = Mapping[str, Sequence[Point]]  # the points of each series


def draw_panels(panels: Mapping[str, Panel], x_label: str) -> str:
    """Return an SVG file with a panel for each title. Each series keeps its colour in all panels."""
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    rows = ceil(len(panels) / COLUMNS)
    legend = ceil(len(names) / 3) * 16
    width, height = COLUMNS * (PANEL_WIDTH + MARGIN) + MARGIN, rows * (PANEL_HEIGHT + MARGIN) + MARGIN + legend
    parts = [_open_file(width, height)]
    for number, name in enumerate(names):
        x, y = MARGIN + number % 3 * (width - MARGIN) / 3, 20 + number // 3 * 16
        parts.append(f'<rect x="{x:.0f}" y="{y - 9}" width="10" height="10" style="fill:{_colour(names, name)}"/>')
        parts.append(f'<text x="{x + 15:.0f}" y="{y}">{escape(name)}</text>')
    for index, (title, panel) in enumerate(panels.items()):
        x, y = MARGIN + index % COLUMNS * (PANEL_WIDTH + MARGIN), MARGIN + legend + index // COLUMNS * (PANEL_HEIGHT + MARGIN)
        parts.append(f'<g transform="translate({x} {y})">{_draw_panel(title, panel, names, x_label)}</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _draw_panel(title: str, panel: Panel, names: Sequence[str], x_label: str) -> str:
    points = [point for series in panel.values() for point in series]
    columns = sorted({point.x for point in points})
    bottom, top = _decades([value for point in points for value in (point.low, point.high)])
    width, height = PANEL_WIDTH - PLOT_LEFT - 14, PANEL_HEIGHT - PLOT_TOP - PLOT_BOTTOM

    def place_x(value: float) -> float:
        return PLOT_LEFT + width * (columns.index(value) + 0.5) / len(columns)

    def place_y(value: float) -> float:
        return PLOT_TOP + height * (1 - (log10(max(value, 10**bottom)) - bottom) / (top - bottom))

    parts = [f'<rect class="frame" width="{PANEL_WIDTH}" height="{PANEL_HEIGHT}"/><text class="title" x="8" y="18">{escape(title)}</text>']
    parts.append(f'<text class="soft" x="8" y="{PANEL_HEIGHT - 8}">{escape(x_label)}</text>')
    for power in range(bottom, top + 1):
        y = place_y(10**power)
        parts.append(f'<line class="grid" x1="{PLOT_LEFT}" x2="{PANEL_WIDTH - 14}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="soft" x="{PLOT_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_format_power(power)}</text>')
    parts += [f'<text class="soft" x="{place_x(x):.1f}" y="{PANEL_HEIGHT - 8}" text-anchor="middle">{x:,.0f}</text>' for x in columns]
    for name, series in panel.items():
        colour = _colour(names, name)
        line = " ".join(f"{place_x(point.x):.1f},{place_y(point.median):.1f}" for point in series)
        parts.append(f'<polyline class="line" points="{line}" style="stroke:{colour}"/>')
        for point in series:
            x, low, high = place_x(point.x), place_y(point.low), place_y(point.high)
            parts.append(f'<line class="whisker" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" style="stroke:{colour}"/>')
            parts.append(f'<circle cx="{x:.1f}" cy="{place_y(point.median):.1f}" r="3" style="fill:{colour}"/>')
    return "".join(parts)


def draw_ratios(title: str, rows: Sequence[RatioRow]) -> str:
    """Return an SVG file with a dot for each median and a line for its spread, on a logarithmic axis with a line at 1."""
    names = list(dict.fromkeys(row.series for row in rows))
    bottom, top = _decades([value for row in rows for value in (row.low, row.high, 1.0)])
    height = 58 + RATIO_ROW_HEIGHT * len(rows) + 10
    plot = RATIO_WIDTH - RATIO_LABEL_WIDTH - 20

    def place(value: float) -> float:
        return RATIO_LABEL_WIDTH + plot * (log10(value) - bottom) / (top - bottom)

    parts = [_open_file(RATIO_WIDTH, height), f'<text class="title" x="{MARGIN}" y="20">{escape(title)}</text>']
    for power in range(bottom, top + 1):
        x = place(10**power)
        weight = ' stroke-width="3"' if power == 0 else ""
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="46" y2="{height - 8}"{weight}/>')
        parts.append(f'<text class="soft" x="{x:.1f}" y="40" text-anchor="middle">{_format_power(power)} x</text>')
    for index, row in enumerate(rows):
        y, colour = 58 + index * RATIO_ROW_HEIGHT, _colour(names, row.series)
        parts.append(f'<text x="{RATIO_LABEL_WIDTH - 10}" y="{y + 4}" text-anchor="end">{escape(row.label)}</text>')
        parts.append(
            f'<line class="whisker" x1="{place(row.low):.1f}" x2="{place(row.high):.1f}" y1="{y}" y2="{y}" style="stroke:{colour}"/>'
        )
        parts.append(f'<circle cx="{place(row.median):.1f}" cy="{y}" r="4" style="fill:{colour}"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _open_file(width: float, height: float) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
    return f'{head}\n{STYLE}\n<rect width="100%" height="100%" style="fill:var(--ground)"/>'


def _colour(names: Sequence[str], name: str) -> str:
    """Return the colour of a series. The first one, which is ours, shares its colour with no other."""
    place = names.index(name)
    return f"var(--c{1 + (place - 1) % (COLOURS - 1) if place else 0})"


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Return the powers of ten below and above all values that are not 0."""
    positive = [value for value in values if value > 0] or [1.0]
    bottom, top = floor(log10(min(positive))), ceil(log10(max(positive)))
    return bottom, max(top, bottom + 1)


def _format_power(power: int) -> str:
    if power < 0:
        return f"{10**power:.{-power}f}"
    thousands = min(power // 3, 3)
    return f"{10 ** (power - 3 * thousands)}{('', ' k', ' M', ' G')[thousands]}"
