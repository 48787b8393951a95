"""The faces of owning work: fetch, take, claim, renew, release, update, done, fail."""

from __future__ import annotations

from postroom.cli import inputs
from postroom.cli.envelope import NOTHING, OK, Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.parsing import Arguments


def fetch(args: Arguments) -> Outcome:
    from postroom.work.candidates import fetch as verb

    agent = inputs.agent(args)
    found = verb(inputs.store(args), agent=agent, statuses=args.status, unread=args.unread, **inputs.given(args, "limit"))
    data = {"threads": [candidate.plain() for candidate in found]}
    return Outcome(data, human="unread" if args.unread else "candidates", exit_code=OK if found else NOTHING)


def take(args: Arguments) -> Outcome:
    agent, lease = inputs.agent(args), inputs.given(args, "lease_seconds")
    if args.wait or args.timeout_seconds is not None:
        from postroom.cli.waiting import interruptible
        from postroom.work.waiting import wait_take

        with interruptible():
            taken = wait_take(inputs.store(args, solitary=True), agent=agent, **lease, **inputs.given(args, "timeout_seconds"))
    else:
        from postroom.work.candidates import take as verb

        taken = verb(inputs.store(args), agent=agent, **lease)
    if taken is None:
        return Outcome({"thread": None}, human="nothing", exit_code=NOTHING)
    return Outcome(taken.plain(), human="claimed")


def claim(args: Arguments) -> Outcome:
    from postroom.work.leases import claim as verb

    agent, thread = inputs.agent(args), inputs.thread(args)
    result = verb(inputs.store(args), thread, agent=agent, takeover=args.takeover, **inputs.given(args, "lease_seconds"))
    return Outcome(result.plain(), human="claimed")


def renew(args: Arguments) -> Outcome:
    from postroom.work.leases import renew as verb

    agent, thread = inputs.agent(args), inputs.thread(args)
    result = verb(inputs.store(args), thread, agent=agent, lease_seconds=args.lease_seconds, lease_token=inputs.lease_token(args))
    return Outcome(result.plain(), human="renewed")


def release(args: Arguments) -> Outcome:
    from postroom.work.leases import release as verb

    agent, thread = inputs.agent(args), inputs.thread(args)
    result = verb(inputs.store(args), thread, agent=agent, lease_token=inputs.lease_token(args), **inputs.given(args, "reason", "to"))
    return Outcome(result.plain(), human="released")


def update(args: Arguments) -> Outcome:
    from postroom.work.progress import update as verb

    said = inputs.texts(args)
    agent, thread = inputs.agent(args), inputs.thread(args)
    result = verb(
        inputs.store(args), thread, agent=agent, lease_token=inputs.lease_token(args), **inputs.given(args, "status", "to"), **said
    )
    return Outcome(result.plain(), human="updated")


def done(args: Arguments) -> Outcome:
    from postroom.work import progress

    said = inputs.texts(args)
    agent, thread, token = inputs.agent(args), inputs.thread(args), inputs.lease_token(args)
    if not args.take_next:
        return Outcome(progress.done(inputs.store(args), thread, agent=agent, lease_token=token, **said).plain(), human="finished")
    lease = inputs.given(args, "lease_seconds")
    finished, taken = progress.done_and_take(inputs.store(args), thread, agent=agent, lease_token=token, **lease, **said)
    return Outcome({**finished.plain(), "next": taken.plain() if taken else None}, human="finished")


def fail(args: Arguments) -> Outcome:
    from postroom.work.progress import fail as verb

    said = inputs.texts(args)
    agent, thread = inputs.agent(args), inputs.thread(args)
    result = verb(inputs.store(args), thread, agent=agent, lease_token=inputs.lease_token(args), **said)
    return Outcome(result.plain(), human="finished")
