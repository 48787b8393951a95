"""Many command lines in one process: for one that is refused, its process costs more than all that it does."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

# It reads the command lines and what each of them reads. Each has a standard output and errors of its own, as in a process of its own.
PROGRAM = """
import json, os, sys
from importlib import import_module
run = import_module(f"postroom.cli.{sys.argv[1]}").run
answers, given = os.dup(1), open(0, "rb", closefd=False).read()
lines, _, stdin = given.partition(b"\\n")
for argv in json.loads(lines):
    files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
    os.pwrite(files[0], stdin, 0)
    for number, file in enumerate(files):
        os.dup2(file, number)
    code = run(argv)
    told = [os.pread(file, os.fstat(file).st_size, 0).decode() for file in files[1:]]
    os.write(answers, (json.dumps([code, *told]) + "\\n").encode())
    for file in files:
        os.close(file)
os._exit(0)
"""


def make_input(lines: Sequence[Sequence[str | bytes]], stdin: bytes) -> bytes:
    """Return what the program reads."""
    return json.dumps([[os.fsdecode(word) for word in line] for line in lines]).encode() + b"\n" + stdin


def read_answers(output: bytes) -> list[tuple[int, bytes, bytes]]:
    """Return the exit code, the output and the errors of each command line."""
    return [(code, stdout.encode(), stderr.encode()) for code, stdout, stderr in map(json.loads, output.splitlines())]
