"""Run another module with limits of memory and CPU time: the first module of our child interpreters, see interpreter.py."""

from __future__ import annotations

import runpy
import sys

from postroom.processes.resource_limits import limit_resources


def main() -> None:
    """Run the module that the command line names. The arguments are bytes, seconds (0: no limit), the module, and its own arguments."""
    _, memory_bytes, cpu_seconds, module, *arguments = sys.argv
    limit_resources(int(memory_bytes), int(cpu_seconds))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
