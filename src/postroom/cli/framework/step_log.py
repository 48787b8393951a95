"""The steps of a worker as log lines: one JSON object for each, on standard error. They name things, and never quote a text."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.cli.framework.output import write_all
from postroom.core import checks, clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    ReportStep = Callable[[str, Any, str], None]
    NameStep = Callable[[Any], dict[str, str]]

LOG_FORMATS = ("text", "json")
_TROUBLE = frozenset(("failed", "lost", "nacked", "dead", "retrying"))


def choose_reporter(args: Any, event: str, print_step: ReportStep, name_item: NameStep) -> ReportStep | None:
    """Return the function that a worker calls with each step. `--log-format json` logs it, else it is printed, or with --json neither.

    `name_item` returns the fields that identify the thread or the message.
    """
    if args.log_format is not None and checks.choice("log-format", args.log_format, LOG_FORMATS) == "json":
        return _make_json_reporter(event, name_item)
    return None if args.json else print_step


def _make_json_reporter(event: str, name_item: NameStep) -> ReportStep:
    def log_step(step: str, item: Any, text: str) -> None:
        level = "warning" if step in _TROUBLE else "info"
        facts = {"time": clock.format_stamp(clock.now()), "level": level, "event": event, "step": step, **name_item(item)}
        write_all(2, jsontext.dumps(facts) + "\n")

    return log_step
