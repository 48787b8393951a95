"""Draws docs/pictures/demo.svg: what `inbox demo` shows on a terminal, as it was really shown."""

from __future__ import annotations

import os
import pty
import re
import sys
from html import escape
from pathlib import Path

PICTURE = Path(__file__).parent / "pictures" / "demo.svg"
COLOURS = {"90": "#8b949e", "31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "35": "#d2a8ff", "36": "#79c0ff"}
INK, PAPER, LINE, LETTER = "#e6edf3", "#0d1117", 19, 7.82
HIDDEN = re.compile(r"(A fresh store: ).*|(.*INBOX_DB=).*")


def shown() -> str:
    """The demonstration on a terminal of its own."""
    parts: list[bytes] = []

    def keep(descriptor: int) -> bytes:
        data = os.read(descriptor, 65536)
        parts.append(data)
        return data

    os.environ.pop("NO_COLOR", None)
    os.environ.update(TERM="xterm-256color", COLUMNS="120")
    pty.spawn([str(Path(sys.executable).parent / "inbox"), "demo"], keep)
    return b"".join(parts).decode().replace("\r\n", "\n")


def drawn(text: str) -> str:
    """The demonstration as SVG, without the folder in which it ran."""
    rows = ["$ inbox demo", *HIDDEN.sub(lambda match: (match[1] or match[2]) + "demo/coord.db", text).split("\n")]
    return draw_terminal(rows, "inbox demo on a terminal")


def draw_terminal(rows: list[str], label: str) -> str:
    """Return the lines of a terminal as SVG, with their colours. `label` is read to those who do not see it."""
    plain = [re.sub(r"\x1b\[\d*m", "", row) for row in rows]
    width, height = int(max(map(len, plain)) * LETTER) + 40, len(rows) * LINE + 30
    lines = [f'<text x="20" y="{30 + number * LINE}">{_spans(row)}</text>' for number, row in enumerate(rows) if row]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img"'
        f' aria-label="{escape(label)}"><rect width="100%" height="100%" rx="10" fill="{PAPER}"/>'
        f'<g fill="{INK}" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="13"'
        f' xml:space="preserve">\n' + "\n".join(lines) + "\n</g></svg>\n"
    )


def _spans(row: str) -> str:
    spans, style = [], ""
    for part in re.split(r"(\x1b\[\d*m)", row):
        code = re.fullmatch(r"\x1b\[(\d*)m", part)
        if code is None:
            spans.append(f"<tspan{style}>{escape(part)}</tspan>" if part else "")
        elif code[1] == "1":
            style = ' font-weight="bold"'
        else:
            style = f' fill="{COLOURS[code[1]]}"' if code[1] in COLOURS else ""
    return "".join(spans)


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn(shown()), encoding="utf-8")
