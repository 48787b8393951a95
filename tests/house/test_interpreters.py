"""Interpreters that we start are isolated: they import no file of the folder in which a command runs, such as a hostile project."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.house.tree import ROOT, SOURCES, nodes

PACKAGE = ROOT / "src" / "postroom"
ALLOWED = {
    "processes/interpreter.py": "isolated_command",
    "processes/command_environment.py": "the folder of our programs",
    "queues/supervisor.py": "-P, with command_environment()",
    "queues/running/runner_process.py": "-P, with command_environment()",
    "queues/running/boot_start.py": "-P; systemd and cron have no variables of the user",
    "cli/framework/runner.py": "the same command line again, in UTF-8",
}
STARTS = ("-m", "-c")  # after which the interpreter puts the current folder first, unless it has -P or -I


def _uses_of_the_interpreter(path: Path) -> list[ast.Attribute]:
    found = [node for node in nodes(path) if isinstance(node, ast.Attribute) and node.attr == "executable"]
    return [node for node in found if isinstance(node.value, ast.Name) and node.value.id == "sys"]


def _command_lines(path: Path) -> list[list[str]]:
    """The constant words of each command line that begins with our interpreter."""
    lines = [node.elts for node in nodes(path) if isinstance(node, ast.Tuple | ast.List) and node.elts]
    return [
        [str(word.value) for word in words if isinstance(word, ast.Constant)]
        for words in lines
        if ast.unparse(words[0]) == "sys.executable"
    ]


def test_the_interpreter_is_started_in_few_modules_and_isolated() -> None:
    for path in SOURCES:
        name = path.relative_to(PACKAGE).as_posix()
        if _uses_of_the_interpreter(path):
            assert name in ALLOWED, "Use isolated_command of processes/interpreter.py."
        for words in _command_lines(path):
            first = next((words.index(start) for start in STARTS if start in words), 0)
            assert first == 0 or {"-P", "-I"} & set(words[:first]), (name, words)


def test_the_list_names_modules_that_start_one() -> None:
    """Else the test above finds nothing because it looks in the wrong way."""
    assert {name for name in ALLOWED if _uses_of_the_interpreter(PACKAGE / name)} == set(ALLOWED)
    assert {name for name in ALLOWED if any({"-P", "-I"} & set(words) for words in _command_lines(PACKAGE / name))} >= {
        "processes/interpreter.py",
        "queues/supervisor.py",
    }
