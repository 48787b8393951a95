"""The room of leased work: every verb of the `inbox` command, importable.

    from postroom import work
    claimed = work.claim(store, "thr_…", agent="builder")

Names are loaded when first used, so that a command pays only for its own.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.work.agents import add_agent as add_agent
    from postroom.work.agents import list_agents as list_agents
    from postroom.work.agents import list_presences as list_presences
    from postroom.work.agents import show_agent as show_agent
    from postroom.work.candidates import fetch as fetch
    from postroom.work.candidates import outlook as outlook
    from postroom.work.candidates import take as take
    from postroom.work.leases import claim as claim
    from postroom.work.leases import release as release
    from postroom.work.leases import renew as renew
    from postroom.work.leases import still_holds as still_holds
    from postroom.work.leases import take_back as take_back
    from postroom.work.progress import cancel as cancel
    from postroom.work.progress import done as done
    from postroom.work.progress import done_and_take as done_and_take
    from postroom.work.progress import fail as fail
    from postroom.work.progress import update as update
    from postroom.work.runs import list_runs as list_runs
    from postroom.work.runs import rhythm as rhythm
    from postroom.work.runs import show_run as show_run
    from postroom.work.threads import is_answered as is_answered
    from postroom.work.threads import list_threads as list_threads
    from postroom.work.threads import mark_read as mark_read
    from postroom.work.threads import reply as reply
    from postroom.work.threads import send as send
    from postroom.work.threads import show as show
    from postroom.work.waiting import wait_reply as wait_reply
    from postroom.work.waiting import wait_take as wait_take
    from postroom.work.waiting import watch as watch

_WHERE = {
    "is_answered": "threads",
    "still_holds": "leases",
    "outlook": "candidates",
    "add_agent": "agents",
    "list_agents": "agents",
    "list_presences": "agents",
    "show_agent": "agents",
    "fetch": "candidates",
    "take": "candidates",
    "claim": "leases",
    "release": "leases",
    "renew": "leases",
    "take_back": "leases",
    "cancel": "progress",
    "done": "progress",
    "done_and_take": "progress",
    "fail": "progress",
    "update": "progress",
    "list_runs": "runs",
    "rhythm": "runs",
    "show_run": "runs",
    "list_threads": "threads",
    "mark_read": "threads",
    "reply": "threads",
    "send": "threads",
    "show": "threads",
    "wait_reply": "waiting",
    "wait_take": "waiting",
    "watch": "waiting",
}
__all__ = sorted(_WHERE)  # noqa: PLE0605


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    verb = globals()[name] = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    return verb
