"""Start the process that wakes a session of Codex or Qwen Code. The start hook of the program calls this, and the MCP server does."""

from __future__ import annotations

import os

from postroom.processes.interpreter import NEUTRAL_FOLDER, isolated_command, short_environment, store_environment

_PASSED_NAMES = ("CODEX_HOME", "POSTROOM_HOOK_LOG", "USER", "XDG_RUNTIME_DIR")  # that the hook and the `codex` that it runs read


def start_ringer(location: str, *, harness: str, agent: str, session: str, owner_pid: int) -> None:
    """Leave a process that rings for a session. It has no terminal, and ends with the program `owner_pid`.

    The project cannot change what it runs: the interpreter is isolated and does not start in its folder. The location of the store is not
    in its command line, which other users can read and which may have a password.
    """
    import subprocess

    words = ("hook", "ring", "--harness", harness, "--agent", agent, f"--session={session}", "--owner", str(owner_pid))
    none = subprocess.DEVNULL
    subprocess.Popen(  # noqa: S603
        isolated_command("postroom.cli.inbox", *words, long_lived=True),
        cwd=NEUTRAL_FOLDER,
        env=_make_environment(location),
        start_new_session=True,
        stdin=none,
        stdout=none,
        stderr=none,
    )


def _make_environment(location: str) -> dict[str, str]:
    passed = {name: os.environ[name] for name in _PASSED_NAMES if name in os.environ}
    if input_file := os.environ.get("QWEN_INPUT_FILE"):
        passed["QWEN_INPUT_FILE"] = os.path.abspath(input_file)
    return {**short_environment(), **store_environment(location), **passed}
