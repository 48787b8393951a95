"""Processes that wait beside a session and ring when something new waits: in a hook of Claude Code, or in a process of our own.

Codex is rung with `codex queue`. Qwen Code reads lines from the file that it was started with (`--input-file`). A ringer ends with its
program.
"""

from __future__ import annotations

import os
from time import monotonic, sleep

from postroom._fastpath import json_text as jsontext
from postroom.cli.framework.output import OK
from postroom.core.errors import StoreBusy, StoreUnreachable
from postroom.processes.owning_program import is_running
from postroom.processes.resource_limits import without_limits
from postroom.store.event_log import inbox_topic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.inbox.harness.hook import Hook
    from postroom.core.records.handovers import WaitingItem

OWNER_CHECK_SECONDS = 5.0
BUSY_CHECK_SECONDS = 0.2
RING_SECONDS = 30.0
RETRY_SECONDS = 2.0
MAX_WAIT_SECONDS = 7 * 86400.0


def wait_for_new(hook: Hook, owner: int, *, at_rest: bool) -> list[WaitingItem]:
    """Sleep until something new waits, and return it. Returns nothing once the program is gone.

    `at_rest`: leave a session in which a turn runs alone. Its own hooks tell the agent.
    """
    deadline = monotonic() + MAX_WAIT_SECONDS
    while is_running(owner) and monotonic() < deadline:
        try:
            with hook.store.watch(inbox_topic(hook.agent)) as watch:
                while is_running(owner) and monotonic() < deadline:
                    if at_rest and hook.session.is_busy:
                        sleep(BUSY_CHECK_SECONDS)
                        continue
                    hook.ring_seconds = 0.0
                    if items := hook.take_new(choose=hook.choose_to_ring):
                        return items
                    watch.wait(min(hook.ring_seconds or OWNER_CHECK_SECONDS, OWNER_CHECK_SECONDS))
        except (StoreUnreachable, StoreBusy):
            sleep(RETRY_SECONDS)  # the store may come back; the session goes on without it
    return []


def ring_until_end(hook: Hook, owner: int) -> int:
    """Ring the session for each new message until its program ends, or until ringing has failed several times in a row.

    A route that was switched off stays recorded, with the reason.
    """
    from postroom.people.agents.route_order import OFF
    from postroom.people.agents.wake_routes import end_ring, remove_route

    if not hook.session.become_waiter():
        return OK
    hook.register_route()
    while is_running(owner):
        items = wait_for_new(hook, owner, at_rest=True)
        if not items:
            continue
        failure = _ring(hook, owner, hook.announce(items))
        if failure:
            hook.session.forget(items)
        route = end_ring(hook.store, **hook.route, failure=failure)
        if route is None or route.state == OFF:
            return OK
    remove_route(hook.store, **hook.route)
    return OK


def _ring(hook: Hook, owner: int, text: str) -> str:
    """Ring once. Returns why the program did not take it, or ""."""
    if hook.harness == "codex":
        return _ring_codex(hook.session_id, text)
    path = os.environ.get("QWEN_INPUT_FILE") or _find_input_file(owner)
    if not path:
        return "qwen was started without --input-file"
    try:
        with open(path, "a") as file:
            file.write(jsontext.dumps({"type": "submit", "text": text}) + "\n")
    except OSError as error:
        return f"{path}: {error.strerror}"
    return ""


def _ring_codex(thread: str, text: str) -> str:
    """Put a message into the queue of a thread. Without a daemon, Codex only warns that nothing was resumed."""
    import subprocess

    argv = ["codex", "queue", "--resume", "--thread", thread, "--message", text]
    try:
        with without_limits():
            ran = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=RING_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"codex queue: {error}"[:300]
    is_taken = ran.returncode == 0 and "could not resume" not in ran.stderr
    return "" if is_taken else f"codex queue: exit {ran.returncode}: {ran.stderr.strip()}"[:300]


def _find_input_file(owner: int) -> str | None:
    """Return the file that Qwen Code was started with. A relative one is relative to the folder of that process."""
    path = find_option(owner, "--input-file")
    return path and os.path.join(f"/proc/{owner}/cwd", path)


def find_option(pid: int, option: str) -> str | None:
    """Return the value of an option in the command line of a process."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().decode(errors="replace").split("\0")
    except OSError:
        return None
    for word, after in zip(words, [*words[1:], ""]):
        if word == option:
            return after or None
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None
