"""The commands of a page, run as a person types them: one after another, in one shell, with the ids that the shell printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
_PREFIXED = r"(?:msg|lse|thr|art|alr|ws|ch|prw|prl|pra|prq|prp)_\w+"
ID = re.compile(rf"\b(?:{_PREFIXED}|{_UUID}|[0-9a-f]{{8}})\b")
SHORT = 8  # characters of a UUID that commands print
SHOWN_FOLDER = "/home/you/team"  # in which a page runs its commands
_MOMENT = re.compile(r"<ago>|just now|in \d+ (?:min|s)|\d+ (?:min|s) ago")


def read_steps(page: str) -> list[tuple[str, str]]:
    """Return the commands of the blocks for bash, each with the output that the page shows in comments below it."""
    steps = []
    for block in re.findall(r"```bash\n(.*?)```", page, re.DOTALL):
        for command, comments in re.findall(r"^(?!#)(.*)\n((?:#.*\n)*)", block, re.MULTILINE):
            steps.append((command, re.sub("^# ?", "", comments, flags=re.MULTILINE)))
    return steps


def write_files(page: str, folder: Path) -> None:
    """Write the programs of a page: blocks whose first line is a comment with a file name."""
    for name, program in re.findall(r"```(?:python|sh)\n# (\w+\.(?:py|sh))\n(.*?)```", page, re.DOTALL):
        (folder / name).write_text(program)


class ConsoleSession:
    """A shell in a folder. An id that a page shows stands for the id that was printed in its place, also in later commands."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._real_ids: dict[str, str] = {}
        environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(folder)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._shell = subprocess.Popen(["bash"], cwd=folder, env=environment, text=True, **pipes)  # type: ignore[call-overload]
        self._steps = 0

    def close(self) -> None:
        self._shell.stdin.close()
        self._shell.wait()
        self._shell.stdout.close()

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
        text = re.sub(r"^ {2,}<ago>", "  <ago>", text, flags=re.MULTILINE)  # columns are as wide as the times in them
        text = re.sub(r"(?<=\S) {2,}", "  ", text)
        return re.sub(r" +$", "", text, flags=re.MULTILINE)


def _placeholder(found: re.Match[str]) -> str:
    kind, underscore, _ = found[0].partition("_")
    return f"{kind}_1" if underscore else "<id>" if len(found[0]) > SHORT else "<short id>"
