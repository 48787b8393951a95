"""`make bench-compare BASE=COMMIT [HEAD=COMMIT]`: the same blocks with two commits in turns, and what changed by more than the noise.

Each side is a process of its own with its own stores, in the same environment: only `postroom` differs. Rounds alternate their order (AB,
BA), and go on until the interval of the ratio is narrow or the time of the operation is over. Without HEAD, the working tree is compared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from bench.changes import SLOWER, Change, format_change, is_narrow, judge
from bench.report import load

ROOT = Path(__file__).parents[1]
BLOCK_SECONDS = 0.1
LEAST_ROUNDS, MOST_ROUNDS = 15, 80
MOST_SECONDS_OF_OPERATION = 25.0
HEADING = f"  {'operation':44} {'elapsed time of HEAD / BASE':>40} {'CPU time of HEAD / BASE':>40}"


class Side:
    """One commit: a process that does blocks."""

    def __init__(self, tree: Path) -> None:
        subprocess.run([sys.executable, "-m", "compileall", "-q", str(tree / "src")], check=True)
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        argv = [sys.executable, "-m", "bench.compare_worker"]
        self._process = subprocess.Popen(argv, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        told = self._read()
        if not Path(told["package"]).is_relative_to(tree):
            raise RuntimeError(f"the process has loaded {told['package']} instead of {tree}")
        self.operations: list[str] = told["operations"]

    def measure(self, operation: str, calls: int) -> tuple[float, float | None]:
        """Return the elapsed and the CPU seconds of a call in one block."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"operation": operation, "calls": calls}) + "\n")
        self._process.stdin.flush()
        told = self._read()
        if "error" in told:
            raise RuntimeError(told["error"])
        elapsed, cpu = told["times"]
        return elapsed, cpu

    def close(self) -> None:
        self._process.communicate()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process of one side has ended")
        told: dict[str, Any] = json.loads(line)
        return told


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.compare")
    parser.add_argument("--base", required=True, metavar="COMMIT")
    parser.add_argument("--head", default="", metavar="COMMIT", help="the working tree unless given")
    parser.add_argument("operations", nargs="*", metavar="OPERATION", help="only those whose names contain one of these words")
    options = parser.parse_args(argv)
    with ExitStack() as stack:
        base, head = (_open_side(stack, commit) for commit in (options.base, options.head))
        print(f"BASE {options.base}, HEAD {options.head or 'the working tree'}; {os.cpu_count()} cores, {load()}")
        print("Above 1, HEAD takes more time. In brackets: the interval of the median, 99.5 % confidence.\n")
        print(HEADING)
        slower = 0
        for operation in base.operations:
            if not options.operations or any(word in operation for word in options.operations):
                slower += _compare(base, head, operation)
    print(f"\n{slower} operations are slower by 10 % or more; {load()}")
    return 1 if slower else 0


def _open_side(stack: ExitStack, commit: str) -> Side:
    if not commit:
        tree = ROOT
    else:
        tree = Path(stack.enter_context(TemporaryDirectory())) / "tree"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), commit], cwd=ROOT, check=True)
        stack.callback(subprocess.run, ["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)
    side = Side(tree)
    stack.callback(side.close)
    return side


def _compare(base: Side, head: Side, operation: str) -> bool:
    """Print the line of one operation, and return whether it is slower by 10 % or more."""
    try:
        elapsed, cpu = compare_operation(base, head, operation)
    except RuntimeError as error:
        print(f"  {operation:44} {f'cannot be measured: {error}':>40}", flush=True)
        return False
    print(format_change(operation, elapsed, cpu), flush=True)
    return any(change is not None and change.is_marked and change.verdict == SLOWER for change in (elapsed, cpu))


def compare_operation(base: Side, head: Side, operation: str) -> tuple[Change, Change | None]:
    """Measure rounds until the interval is narrow, and judge the elapsed time and, where there is one, the CPU time."""
    alone = max(side.measure(operation, 3)[0] for side in (base, head))  # warms up
    calls = max(1, int(BLOCK_SECONDS / alone))
    times: dict[str, list[tuple[float, float | None]]] = {"base": [], "head": []}
    until = monotonic() + MOST_SECONDS_OF_OPERATION
    for turn in range(MOST_ROUNDS):
        order = (("base", base), ("head", head))
        for name, side in order if turn % 2 == 0 else reversed(order):
            times[name].append(side.measure(operation, calls))
        elapsed = judge([one[0] for one in times["base"]], [one[0] for one in times["head"]])
        if turn + 1 >= LEAST_ROUNDS and (is_narrow(elapsed) or monotonic() > until):
            break
    base_cpu, head_cpu = ([cpu for _, cpu in times[name] if cpu] for name in ("base", "head"))
    return elapsed, judge(base_cpu, head_cpu) if len(base_cpu) == len(head_cpu) == len(times["base"]) else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
