"""The commands of a page, run as a person types them: one after another, in one shell, with the ids that the shell printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
_PREFIXED = r"(?:msg|lse|dlv|thr|art|alr|ws|ch|prw|prl|pra|prq|prp)_\w+"
ID = re.compile(rf"\b(?:{_PREFIXED}|{_UUID}|[0-9a-f]{{8}})\b")
SHORT = 8  # characters of a UUID that commands print
SHOWN_FOLDER = "/home/you/team"  # in which a page runs its commands
_MOMENT = re.compile(r"<ago>|just now|in \d+ (?:min|s)|\d+ (?:min|s) ago")
_SIZE = re.compile(r"\d+\.\d+ (?:s|MiB)\b")
_TASK_RUN = re.compile(r"^\d+(?=  \w+  (?:done|failed),)", re.MULTILINE)
# Commands that look at what a handler does: a reader comes some seconds after it was started, the test at once.
_LOOKS = ("cat ", "notifier task runs", "thread info")
_LOOK_SECONDS = 60


class PageStep(NamedTuple):
    """A command of a page, and the output that the page shows in comments below it."""

    command: str
    shown: str
    in_another_terminal: bool = False


def read_blocks(page: str) -> list[list[PageStep]]:
    """Return the blocks for bash, each as its steps. Those marked `in-another-terminal` keep running there."""
    return [
        [
            PageStep(command, re.sub("^# ?", "", comments, flags=re.MULTILINE), bool(marked))
            for command, comments in re.findall(r"^(?!#)(.*)\n((?:#.*\n)*)", block, re.MULTILINE)
        ]
        for marked, block in re.findall(r"```bash( in-another-terminal)?\n(.*?)```", page, re.DOTALL)
    ]


def write_files(page: str, folder: Path) -> None:
    """Write the programs of a page: blocks whose first line is a comment with a file name."""
    for name, program in re.findall(r"```(?:python|sh)\n# (\w+\.(?:py|sh))\n(.*?)```", page, re.DOTALL):
        (folder / name).write_text(program)


class ConsoleSession:
    """A shell in a folder. An id that a page shows stands for the id that was printed in its place, also in later commands."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._real_ids: dict[str, str] = {}
        self._environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(folder)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._shell = subprocess.Popen(["bash"], cwd=folder, env=self._environment, text=True, **pipes)  # type: ignore[call-overload]
        self._others: list[subprocess.Popen[str]] = []
        self._steps = 0

    def close(self) -> None:
        for other in self._others:
            other.terminate()
            other.communicate()
        self._shell.stdin.close()
        self._shell.wait()
        self._shell.stdout.close()

    def run_step(self, step: PageStep) -> str:
        """Run a step of the page, and return what it prints. A step that looks is repeated until it sees what the page shows."""
        if step.in_another_terminal:
            return self._start(step)
        printed = self.run(step.command)
        deadline = time.monotonic() + _LOOK_SECONDS
        while step.command.startswith(_LOOKS) and self.normalize(printed) != self.normalize(step.shown) and time.monotonic() < deadline:
            printed = self.run(step.command)
        return printed

    def _start(self, step: PageStep) -> str:
        """Start a command that keeps running, and return as many lines of its output as the page shows."""
        argv = ["bash", "-c", f"exec {step.command}"]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(argv, cwd=self._folder, env=self._environment, text=True, **pipes)  # type: ignore[call-overload]
        self._others.append(process)
        return "".join(process.stdout.readline() for _ in step.shown.splitlines())

    def run(self, command: str) -> str:
        """Run a command of the page and return what it prints."""
        self._steps += 1
        script, output = (self._folder.with_name(f"{self._steps}.{end}") for end in ("sh", "out"))
        script.write_text(ID.sub(lambda found: self._real_ids.get(found[0], found[0]), command))
        self._shell.stdin.write(f". {script} > {output} 2>&1 < /dev/null; echo\n")
        self._shell.stdin.flush()
        self._shell.stdout.readline()
        return output.read_text()

    def learn_ids(self, shown: str, printed: str) -> None:
        """Remember which id stands for which, from the output of a command on the page and in reality."""
        for ours, real in zip(ID.findall(shown), ID.findall(printed), strict=False):
            self._real_ids[ours] = real
            self._real_ids.setdefault(ours[:SHORT], real[:SHORT])

    def normalize(self, text: str) -> str:
        """Replace ids, times and the folder by placeholders."""
        text = text.replace(str(self._folder), "<tmp>").replace(SHOWN_FOLDER, "<tmp>")
        text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", "<time>", text)
        text = ID.sub(_placeholder, text)
        text = _MOMENT.sub("<ago>", text)
        text = _TASK_RUN.sub("<run>", _SIZE.sub("<size>", text))
        text = re.sub(r"^ {2,}<ago>", "  <ago>", text, flags=re.MULTILINE)  # columns are as wide as the times in them
        text = re.sub(r"(?<=\S) {2,}", "  ", text)
        return re.sub(r" +$", "", text, flags=re.MULTILINE)


def _placeholder(found: re.Match[str]) -> str:
    kind, underscore, _ = found[0].partition("_")
    return f"{kind}_1" if underscore else "<id>" if len(found[0]) > SHORT else "<short id>"
