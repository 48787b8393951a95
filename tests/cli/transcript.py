"""Transcripts: what is typed, what is printed on which stream, and the exit code, compared whole.

    ## One of two claimers wins                         each heading is a test, in a folder and a store of its own
    % inbox claim --agent builder --thread thr_1        arranges: must exit 0, what it prints is not compared
    $ inbox claim --agent other --thread thr_1          acts
    ! error: thr_1 is held by builder until <time>      standard error
    [20]                                                the exit code, when it is not 0
    ~ inbox fetch --agent other                         acts again and again, until it is so (at most ten seconds)
    $ INBOX_AGENT=other inbox take                      with a variable in its environment
    \\## Printed                                         a line that is printed, and no heading
    $ thread push --batch <<< '{…}' '{…}'               with lines on its standard input

Ids, times, secrets and the folder differ from run to run: they are written thr_1, <time>, <ago>, <ahead>, <token>, <tmp>, <pid>. JSON is
printed on one line (that is checked) and written here on several. A thread, a message and so on is written as the fields in which it
differs from the one in transcripts/objects.json: see `abbreviation.py`. `make transcripts` writes the outputs anew, and
`python -m tests.cli.transcript FILE…` those of some files: read the difference.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.cli.abbreviation import abbreviate
from tests.cli.process import Finished, Inbox

TRANSCRIPTS = Path(__file__).parent / "transcripts"
PATIENCE = 10.0
WIDTH = 120
PROGRAMS = ("inbox", "mailbox", "thread", "notifier")
_ID = re.compile(r"\b(?:(?:thr|msg|lse|art|ws|rep|sht|ch|alr)_[0-9a-hjkmnp-tv-z]{17}|pass_[0-9a-f]{12})\b")
_TASK = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_SHORT_TASK = re.compile(r"(?:^|(?<=  ))[0-9a-f]{8}(?=  )", re.MULTILINE)  # the beginning of one, in a table
_SAID = re.compile(r"\b(?:thr|msg|lse|art|tsk|ws|rep|sht|ch|alr|pass)_[0-9]+\b")


class Names:
    """thr_1 for the first thread that appeared, and the way back."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder.resolve())
        self._short: dict[str, str] = {}
        self._long: dict[str, str] = {}

    def shorten(self, text: str) -> str:
        text = _ID.sub(lambda match: self._name(match[0]), text.replace(self._folder, "<tmp>"))
        text = _TASK.sub(lambda match: self._name(match[0], "tsk"), text)
        text = _SHORT_TASK.sub(lambda match: self._name(self._whole(match[0]), "tsk"), text)
        text = re.sub(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,6}Z?", "<time>", text)
        text = re.sub(r"\bpr[a-z]_[0-9a-f]{64}\b", "<token>", re.sub(r'"(ts|activeTs)": \d+', r'"\1": 1', text))
        text = re.sub(r"\bprocess \d+", "process <pid>", re.sub(r'"pid": \d+', '"pid": 1', text))
        text = re.sub(r"\b\d+\.\d+ s,", "<seconds>", re.sub(r'"seconds": [\d.]+', '"seconds": 0.1', text))
        text = re.sub(r"\bin \d+ (?:s|min|h|d)\b", "<ahead>", text)
        text = re.sub(r"\bjust now\b|\b\d+ (?:s|min|h|d) ago\b", "<ago>", text)
        text = re.sub(r"^ {2,}<ago>", "  <ago>", text, flags=re.MULTILINE)
        return re.sub(r"(<ago>|SENT|UPDATED|SINCE|THREAD) {2,}", r"\1  ", text)  # columns are as wide as what was replaced

    def lengthen(self, text: str) -> str:
        return _SAID.sub(lambda match: self._long.get(match[0], match[0]), text)

    def _whole(self, beginning: str) -> str:
        return next((identity for identity in self._short if identity.startswith(beginning)), beginning)

    def _name(self, identity: str, kind: str = "") -> str:
        shortened = identity[:8]
        if kind == "tsk" and identity not in self._short and shortened in self._short:  # its beginning was printed before
            self._short[identity] = short = self._short[shortened]
            self._long[short] = identity
        if identity not in self._short:
            kind = kind or identity.partition("_")[0]
            short = f"{kind}_{1 + sum(name.startswith(kind) for name in self._long)}"
            self._short[identity], self._long[short] = short, identity
        return self._short[identity]


class TranscriptStep:
    """One command line and what it should print."""

    def __init__(self, mark: str, line: str, expected: str) -> None:
        self.mark = mark
        self.line = line
        self.expected = expected

    @cached_property
    def _parts(self) -> tuple[dict[str, str], str, list[str]]:
        return split(self.line)

    @property
    def program(self) -> str:
        return self._parts[1]

    def argv(self) -> list[str]:
        return self._parts[2]


class TranscriptCase:
    """One test: a sentence, and the steps that show it."""

    def __init__(self, file: str, sentence: str, steps: list[TranscriptStep]) -> None:
        self.file = file
        self.sentence = sentence
        self.steps = steps

    def play(self, folder: Path, inbox: Inbox | None = None, *, cold: bool = True) -> list[str]:
        """Return what each step printed, in the words of a transcript. If `cold`, a command that acts is a new interpreter."""
        arranging, acting, names = inbox or Inbox(folder), inbox or Inbox(folder, cold=cold), Names(folder)
        return [self._take(arranging if step.mark == "%" else acting, names, step) for step in self.steps]

    def _take(self, inbox: Inbox, names: Names, step: TranscriptStep) -> str:
        deadline = time.monotonic() + PATIENCE
        while True:
            finished = _run(inbox, names.lengthen(step.line))
            written = write(finished, names)
            if step.mark == "%":
                assert finished.code == 0, f"{step.line}\n{written}"
                return ""
            if step.mark == "$" or written == step.expected or time.monotonic() > deadline:
                return written


def _run(inbox: Inbox, line: str) -> Finished:
    environment, program, argv = split(line)
    argv, _, given = _partition(argv, "<<<")
    return inbox.execute(argv, environment, stdin="".join(f"{text}\n" for text in given).encode(), program=program)


def split(line: str) -> tuple[dict[str, str], str, list[str]]:
    """`NAME=value inbox show`: the environment, the program, and what comes after. `\\n` is a new line."""
    words = [word.replace("\\n", "\n") for word in shlex.split(line)]
    start = next(place for place, word in enumerate(words) if word in PROGRAMS)
    return dict(word.split("=", 1) for word in words[:start]), words[start], words[start + 1 :]


def _partition(words: list[str], mark: str) -> tuple[list[str], str, list[str]]:
    return (words[: words.index(mark)], mark, words[words.index(mark) + 1 :]) if mark in words else (words, "", [])


def write(finished: Finished, names: Names) -> str:
    """A process's end, in the words of a transcript."""
    assert "Traceback" not in finished.stderr, finished.stderr
    for stream in (finished.stdout, finished.stderr):
        assert stream == "" or stream.endswith("\n"), f"the last line does not end: {stream!r}"
    lines = [f"\\{line}" if line.startswith("## ") else line for line in _unfold(names.shorten(finished.stdout)).splitlines()]
    lines += [f"! {line}" for line in names.shorten(finished.stderr).splitlines()]
    if finished.code:
        lines.append(f"[{finished.code}]")
    return "\n".join(lines)


def _unfold(stdout: str) -> str:
    if not stdout.startswith("{") or stdout.count("\n") > 1:
        return stdout
    parsed = json.loads(stdout)
    assert stdout == json.dumps(parsed, ensure_ascii=False) + "\n", f"not one object on one line: {stdout!r}"
    return _lay_out(abbreviate(parsed), "")


def _lay_out(value: Any, indent: str) -> str:
    """JSON over several lines where one would be too long."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(flat) <= WIDTH or not isinstance(value, dict | list) or not value:
        return flat
    inner = indent + "  "
    if isinstance(value, list):
        rows = [inner + _lay_out(item, inner) for item in value]
        return "[\n" + ",\n".join(rows) + f"\n{indent}]"
    rows = [f"{inner}{json.dumps(key)}: {_lay_out(item, inner)}" for key, item in value.items()]
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"


def scenes(file: Path) -> Iterator[TranscriptCase]:
    """The tests of a file of transcripts."""
    for part in re.split(r"^## ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        sentence, _, rest = part.partition("\n")
        steps = []
        for block in re.split(r"^(?=[$%~] )", rest, flags=re.MULTILINE)[1:]:
            line, _, expected = block.partition("\n")
            steps.append(TranscriptStep(line[0], line[2:], expected.rstrip("\n")))
        yield TranscriptCase(file.stem, sentence.strip(), steps)


def every_scene() -> list[TranscriptCase]:
    return [scene for file in sorted(TRANSCRIPTS.glob("*.txt")) for scene in scenes(file)]


def rewrite(file: Path) -> None:
    """Play a file and write what was printed in place of what was expected."""
    written = file.read_text(encoding="utf-8").partition("## ")[0]
    for scene in scenes(file):
        with tempfile.TemporaryDirectory() as folder:
            seen = scene.play(Path(folder))
        written += f"## {scene.sentence}\n"
        for step, text in zip(scene.steps, seen):
            written += f"{step.mark} {step.line}\n" + (f"{text}\n" if text else "")
        written += "\n"
    file.write_text(written.rstrip("\n") + "\n", encoding="utf-8")


if __name__ == "__main__":
    for chosen in [Path(name) for name in sys.argv[1:]] or sorted(TRANSCRIPTS.glob("*.txt")):
        rewrite(chosen)
