"""Handlers and text views of `run list`, `run show` and `run wait`."""

from __future__ import annotations

import os

from postroom.cli.framework.output import NOTHING, OK, Outcome, write_all
from postroom.cli.framework.terminal import colour_text, one_line, relative_time, render_more, render_table
from postroom.cli.inbox import inputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from postroom.cli.framework.parser import Arguments
    from postroom.core.records.runs import RunWaitResult
    from postroom.store.interface import Store

    Data = dict[str, Any]


def handle_run_list(args: Arguments) -> Outcome:
    from postroom.work.runs import list_runs

    return Outcome(list_runs(inputs.open_store_for(args), **inputs.given_options(args, "limit", "after")).to_json(), view="run list")


def handle_run_show(args: Arguments) -> Outcome:
    from postroom.work.listing import list_threads
    from postroom.work.runs import summarize_run

    store = inputs.open_store_for(args)
    run = summarize_run(store, args.words[0])
    page = list_threads(store, run_id=run.run_id, **inputs.given_options(args, "limit", "after"))
    return Outcome({"run": run.to_json(), **page.to_json()}, view="run show")


def handle_run_wait(args: Arguments) -> Outcome:
    from postroom.cli.inbox.waiting import interruptible

    store = inputs.open_store_for(args, owns_process=True)
    with interruptible():
        waited = _wait_with_progress(store, args.words[0], args.timeout_seconds or 0)
    data = {"woke": waited.woke, "open_threads": waited.open_threads, "run": waited.run.to_json()}
    return Outcome(data, view="run wait", exit_code=OK if waited.woke else NOTHING)


def _wait_with_progress(store: Store, run_id: str, timeout_seconds: float) -> RunWaitResult:
    """Wait for a run. If standard error is a terminal, show there how many threads have ended."""
    from time import monotonic

    from postroom.work.runs import wait_run

    if not os.isatty(2):
        return wait_run(store, run_id, timeout_seconds=timeout_seconds)
    deadline = monotonic() + timeout_seconds
    waited = wait_run(store, run_id, open_threads=-1, timeout_seconds=timeout_seconds)
    while True:
        write_all(2, f"\r\x1b[K{waited.run.threads - waited.open_threads} of {waited.run.threads} ended")
        left = max(deadline - monotonic(), 0.001) if timeout_seconds else 0
        if not waited.woke or waited.open_threads == 0:
            write_all(2, "\r\x1b[K")
            return waited
        waited = wait_run(store, run_id, open_threads=waited.open_threads, timeout_seconds=left)


def _statuses_text(run: Data) -> str:
    return ", ".join(f"{number} {status}" for status, number in run["by_status"].items())


def _count_threads(number: int) -> str:
    return f"{number} thread{'' if number == 1 else 's'}"


def _render_list(data: Data) -> str:
    if not data["runs"]:
        return "No runs.\n"
    rows = [
        (run["run_id"] or "(none)", f"{run['threads']}{'+' * run['partial']}", relative_time(run["last_at"]), _statuses_text(run))
        for run in data["runs"]
    ]
    return render_table(("RUN", "THREADS", "UPDATED", "STATUSES"), rows) + render_more(data)


def _render_run(data: Data) -> str:
    from postroom.cli.inbox.views import render_view

    return _render_headline(data["run"]) + render_view("threads", data)


def _render_headline(run: Data) -> str:
    agents = one_line(", ".join(run["agents"]))
    return f"{colour_text('bold', one_line(run['run_id']))}  {_count_threads(run['threads'])}: {_statuses_text(run)}\n  agents: {agents}\n"


def _render_waited(data: Data) -> str:
    ending = "Every thread has ended.\n" if data["woke"] else f"The time is over. Not ended: {_count_threads(data['open_threads'])}.\n"
    return _render_headline(data["run"]) + ending


VIEWS: dict[str, Callable[[Data], str]] = {"run list": _render_list, "run show": _render_run, "run wait": _render_waited}
