"""Handlers of `fetch`, `take`, `claim`, `renew`, `release`, `update`, `done` and `fail`."""

from __future__ import annotations

from postroom.cli.framework.output import NOTHING, OK, Outcome
from postroom.cli.inbox import inputs
from postroom.core.text import shell_quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.framework.parser import Arguments


def handle_fetch(args: Arguments) -> Outcome:
    from postroom.work.candidates import fetch

    agent = inputs.require_agent(args)
    page = fetch(
        inputs.open_store_for(args), agent=agent, statuses=args.status, unread=args.unread, **inputs.given_options(args, "limit", "after")
    )
    return Outcome(
        page.to_json(), view="unread" if args.unread else "candidates", exit_code=OK if page.candidates or page.more else NOTHING
    )


def handle_take(args: Arguments) -> Outcome:
    agent = inputs.require_agent(args)
    lease = inputs.given_options(args, "lease_seconds")
    if args.wait or args.timeout_seconds is not None:
        from postroom.cli.inbox.waiting import interruptible
        from postroom.tasks.taking import wait_take

        with interruptible():
            taken = wait_take(
                inputs.open_store_for(args, owns_process=True), agent=agent, **lease, **inputs.given_options(args, "timeout_seconds")
            )
    else:
        from postroom.tasks.taking import take

        taken = take(inputs.open_store_for(args), agent=agent, **lease)
    if taken is None:
        return Outcome({"thread": None}, view="nothing", exit_code=NOTHING)
    return Outcome(taken.to_json(), view="claimed", recovery=_token_recovery(agent, taken.thread.thread_id))


def handle_claim(args: Arguments) -> Outcome:
    from postroom.work.leases import claim

    agent, thread = inputs.require_agent(args), inputs.require_thread(args)
    result = claim(inputs.open_store_for(args), thread, agent=agent, takeover=args.takeover, **inputs.given_options(args, "lease_seconds"))
    return Outcome(result.to_json(), view="claimed", recovery=_token_recovery(agent, thread))


def _token_recovery(agent: str, thread_id: str) -> str:
    """Return how to get a lease again whose token could not be printed."""
    agent_word, thread_word = shell_quote(agent), shell_quote(thread_id)
    return f"Claim the thread again with `inbox claim --takeover --agent {agent_word} --thread {thread_word}`."


def handle_renew(args: Arguments) -> Outcome:
    from postroom.work.leases import renew

    agent, thread = inputs.require_agent(args), inputs.require_thread(args)
    result = renew(inputs.open_store_for(args), thread, agent=agent, lease_seconds=args.lease_seconds, lease_token=inputs.lease_token(args))
    return Outcome(result.to_json(), view="renewed")


def handle_release(args: Arguments) -> Outcome:
    from postroom.work.leases import release

    agent, thread = inputs.require_agent(args), inputs.require_thread(args)
    result = release(
        inputs.open_store_for(args), thread, agent=agent, lease_token=inputs.lease_token(args), **inputs.given_options(args, "reason", "to")
    )
    return Outcome(result.to_json(), view="released")


def handle_update(args: Arguments) -> Outcome:
    from postroom.work.progress import update

    text = inputs.text_options(args)
    agent, thread = inputs.require_agent(args), inputs.require_thread(args)
    result = update(
        inputs.open_store_for(args),
        thread,
        agent=agent,
        lease_token=inputs.lease_token(args),
        **inputs.given_options(args, "status", "to"),
        **text,
    )
    return Outcome(result.to_json(), view="updated")


def handle_done(args: Arguments) -> Outcome:
    from postroom.work import progress

    text = inputs.text_options(args)
    agent, thread, token = inputs.require_agent(args), inputs.require_thread(args), inputs.lease_token(args)
    if not args.take_next:
        return Outcome(
            progress.done(inputs.open_store_for(args), thread, agent=agent, lease_token=token, **text).to_json(), view="finished"
        )
    lease = inputs.given_options(args, "lease_seconds")
    from postroom.tasks.taking import done_and_take

    finished, taken = done_and_take(inputs.open_store_for(args), thread, agent=agent, lease_token=token, **lease, **text)
    return Outcome({**finished.to_json(), "next": taken.to_json() if taken else None}, view="finished")


def handle_fail(args: Arguments) -> Outcome:
    from postroom.work.progress import fail

    text = inputs.text_options(args)
    agent, thread = inputs.require_agent(args), inputs.require_thread(args)
    result = fail(inputs.open_store_for(args), thread, agent=agent, lease_token=inputs.lease_token(args), **text)
    return Outcome(result.to_json(), view="finished")
