"""Handlers of `read` and `wait`."""

from __future__ import annotations

from postroom.cli.framework.output import NOTHING, OK, Outcome
from postroom.cli.inbox import inputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.framework.parser import Arguments
    from postroom.core.records.handovers import WaitingList


def handle_read(args: Arguments) -> Outcome:
    from postroom.people.agents.waiting import list_waiting

    agent = inputs.require_agent(args)
    return _outcome_of(list_waiting(inputs.open_store_for(args), agent=agent, **_given_options(args)))


def handle_wait(args: Arguments) -> Outcome:
    from postroom.cli.inbox.waiting import interruptible
    from postroom.people.agents.waiting import wait_messages

    agent = inputs.require_agent(args)
    store = inputs.open_store_for(args, owns_process=True)
    with interruptible():
        return _outcome_of(wait_messages(store, agent=agent, **_given_options(args, "timeout_seconds")))


def _given_options(args: Arguments, *more: str) -> dict[str, Any]:
    place = {} if args.after_event is None else {"after": args.after_event}
    return place | inputs.given_options(args, "limit", *more)


def _outcome_of(waiting: WaitingList) -> Outcome:
    return Outcome(waiting.to_json(), view="people waiting", exit_code=OK if waiting.waiting else NOTHING)
