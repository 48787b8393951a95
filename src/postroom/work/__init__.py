"""Leased work: threads, messages, leases and workers. These are the verbs of the `inbox` command as functions.

    from postroom import work
    claimed = work.claim(store, "thr_…", agent="builder")

The command line, the server and `postroom.people` call it. It must not know about them, nor about SQL dialects.
A name is imported when it is first used, so that a command loads only the modules that it needs.
"""

from __future__ import annotations

from postroom.core.lazy_names import import_on_first_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.work.agents import add_agent as add_agent
    from postroom.work.agents import list_agents as list_agents
    from postroom.work.agents import list_presences as list_presences
    from postroom.work.agents import show_agent as show_agent
    from postroom.work.batches import send_all as send_all
    from postroom.work.candidates import fetch as fetch
    from postroom.work.candidates import next_available as next_available
    from postroom.work.candidates import take as take
    from postroom.work.leases import claim as claim
    from postroom.work.leases import holds_lease as holds_lease
    from postroom.work.leases import release as release
    from postroom.work.leases import renew as renew
    from postroom.work.leases import revoke_lease as revoke_lease
    from postroom.work.listing import list_threads as list_threads
    from postroom.work.progress import cancel as cancel
    from postroom.work.progress import done as done
    from postroom.work.progress import fail as fail
    from postroom.work.progress import update as update
    from postroom.work.recovery import reassign as reassign
    from postroom.work.recovery import retry_thread as retry_thread
    from postroom.work.runs import activity_histogram as activity_histogram
    from postroom.work.runs import list_runs as list_runs
    from postroom.work.runs import show_run as show_run
    from postroom.work.runs import summarize_run as summarize_run
    from postroom.work.runs import wait_run as wait_run
    from postroom.work.threads import is_answered as is_answered
    from postroom.work.threads import mark_read as mark_read
    from postroom.work.threads import reply as reply
    from postroom.work.threads import send as send
    from postroom.work.threads import show as show
    from postroom.work.waiting import wait_reply as wait_reply
    from postroom.work.waiting import wait_take as wait_take
    from postroom.work.waiting import watch as watch

_MODULE_OF_VERB = {
    "is_answered": "threads",
    "holds_lease": "leases",
    "next_available": "candidates",
    "add_agent": "agents",
    "list_agents": "agents",
    "list_presences": "agents",
    "show_agent": "agents",
    "send_all": "batches",
    "fetch": "candidates",
    "take": "candidates",
    "claim": "leases",
    "release": "leases",
    "renew": "leases",
    "revoke_lease": "leases",
    "cancel": "progress",
    "done": "progress",
    "fail": "progress",
    "update": "progress",
    "reassign": "recovery",
    "retry_thread": "recovery",
    "list_runs": "runs",
    "activity_histogram": "runs",
    "show_run": "runs",
    "summarize_run": "runs",
    "wait_run": "runs",
    "list_threads": "listing",
    "mark_read": "threads",
    "reply": "threads",
    "send": "threads",
    "show": "threads",
    "wait_reply": "waiting",
    "wait_take": "waiting",
    "watch": "waiting",
}
__all__ = sorted(_MODULE_OF_VERB)  # noqa: PLE0605
__getattr__, __dir__ = import_on_first_use(globals(), _MODULE_OF_VERB)
