"""The faces of the command `mailbox`."""

from __future__ import annotations

import os

from postroom.cli import inputs
from postroom.cli.envelope import NOTHING, Outcome, write
from postroom.core.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from postroom.cli.parsing import Arguments
    from postroom.core.letters import Delivery, MailMessage


def enqueue(args: Arguments) -> Outcome:
    from postroom.mail.mailbox import enqueue as verb

    if args.batch is not None:
        return _batch(args)
    message = _whole(args, "message-file", _json) if args.message_file is not None else _message(args)
    return Outcome(verb(inputs.store(args), message).plain(), human="queued")


def _batch(args: Arguments) -> Outcome:
    from postroom.mail.mailbox import enqueue_all

    acks = enqueue_all(inputs.store(args), _whole(args, "batch", _json_lines))
    return Outcome({"messages": [ack.plain() for ack in acks], "stored": sum(ack.queued for ack in acks)}, human="queued all")


def _message(args: Arguments) -> dict[str, Any]:
    if args.payload is not None and args.payload_file is not None:
        raise InvalidInput("payload and payload-file exclude each other", field="payload", hint="Leave one of them out.")
    said = {**inputs.given(args, "from", "to", "payload", "msg_id", "created_at")}
    if args.payload_file is not None:
        hint = "A payload is text; encode it, for example as base64."
        said["payload"] = inputs.file_text(args.payload_file, field="payload-file", hint=hint)
    return said


def _whole(args: Arguments, flag: str, read: Callable[[str], Any]) -> Any:
    """What a file that holds whole messages says. Flags that say the same cannot stand beside it."""
    own = flag.replace("-", "_")
    others = inputs.given(args, "from", "to", "payload", "payload_file", "msg_id", "created_at", "message_file", "batch")
    for other in [name.replace("_", "-") for name in others if name != own]:
        raise InvalidInput(f"{flag} holds whole messages: {other} cannot be given beside it", field=other, hint="Leave one of them out.")
    return read(inputs.file_text(args.values[own], field=flag, hint="A message is JSON, and JSON is UTF-8."))


def _json(text: str, where: str = "the message") -> Any:
    from postroom.core import jsontext

    try:
        return jsontext.loads(text)
    except ValueError as error:
        hint = 'For example: {"from": "lead", "to": "analyst", "payload": "…"}'
        raise InvalidInput(f"{where} is not JSON: {error}", field="message", hint=hint) from None


def _json_lines(text: str) -> list[Any]:
    return [_json(line, f"message {number}") for number, line in enumerate(filter(str.strip, text.split("\n")), 1)]


def dequeue(args: Arguments) -> Outcome:
    from postroom.mail.mailbox import dequeue as verb

    return _delivery(verb(inputs.store(args), _session(args), receiver=args.receiver))


def wait(args: Arguments) -> Outcome:
    from postroom.cli.waiting import interruptible
    from postroom.mail.waiting import wait as verb

    session, store = _session(args), inputs.store(args, solitary=True)
    with interruptible():
        return _delivery(verb(store, session, receiver=args.receiver, **inputs.given(args, "timeout_seconds")))


def _delivery(delivery: Delivery | None) -> Outcome:
    if delivery is None:
        return Outcome({"message": None}, human="no mail", exit_code=NOTHING)
    return Outcome(delivery.plain(), human="delivery")


def ack(args: Arguments) -> Outcome:
    from postroom.mail import mailbox

    session, msg_id = _session(args), _msg_id(args)
    if not args.take_next:
        return Outcome(mailbox.ack(inputs.store(args), session, msg_id, delivery_token=_token(args)).plain(), human="told")
    acked, taken = mailbox.ack_and_dequeue(inputs.store(args), session, msg_id, delivery_token=_token(args), receiver=args.receiver)
    return Outcome({**acked.plain(), "next": taken.plain() if taken else None}, human="told")


def nack(args: Arguments) -> Outcome:
    from postroom.mail.mailbox import nack as verb

    session, msg_id = _session(args), _msg_id(args)
    said = inputs.given(args, "reason")
    return Outcome(verb(inputs.store(args), session, msg_id, delivery_token=_token(args), **said).plain(), human="told")


def extend(args: Arguments) -> Outcome:
    from postroom.mail.mailbox import extend as verb

    session, msg_id = _session(args), _msg_id(args)
    return Outcome(verb(inputs.store(args), session, msg_id, seconds=args.seconds, delivery_token=_token(args)).plain(), human="extended")


def peek(args: Arguments) -> Outcome:
    from postroom.mail.reading import peek as verb

    session = _session(args)
    return Outcome(verb(inputs.store(args), session, **inputs.given(args, "limit")).plain(), human="waiting")


def purge(args: Arguments) -> Outcome:
    from postroom.mail.sweeping import purge as verb

    session = _session(args)
    return Outcome({"purged": verb(inputs.store(args), session)}, human="purged")


def peek_dead_letter(args: Arguments) -> Outcome:
    from postroom.mail.dead_letters import peek_dead_letter as verb

    session = _session(args)
    return Outcome({"entries": [entry.plain() for entry in verb(inputs.store(args), session, **inputs.given(args, "limit"))]}, human="dead")


def retry_dead_letter(args: Arguments) -> Outcome:
    from postroom.mail.dead_letters import retry_dead_letter as verb

    session = _session(args)
    return Outcome({"retried": verb(inputs.store(args), session, msg_id=args.msg_id)}, human="retried")


def purge_dead_letter(args: Arguments) -> Outcome:
    from postroom.mail.dead_letters import purge_dead_letter as verb

    session = _session(args)
    return Outcome({"purged": verb(inputs.store(args), session, msg_id=args.msg_id)}, human="purged")


def show(args: Arguments) -> Outcome:
    from postroom.mail.reading import show as verb

    msg_id = _msg_id(args)
    return Outcome(verb(inputs.store(args), msg_id).plain(), human="receipt")


def sessions(args: Arguments) -> Outcome:
    from postroom.mail.reading import sessions as verb

    return Outcome({"sessions": [counts.plain() for counts in verb(inputs.store(args), **inputs.given(args, "limit"))]}, human="mailboxes")


def policy(args: Arguments) -> Outcome:
    from postroom.mail import settings

    session, store = _session(args), inputs.store(args)
    changes = inputs.given(args, "base_backoff_secs", "max_retries", "inflight_timeout_secs", "ttl_secs")
    found = settings.set_policy(store, session, **changes) if changes else settings.policy(store, session)
    return Outcome({"policy": found.plain()}, human="policy")


def alias(args: Arguments) -> Outcome:
    from postroom.mail import settings

    if not args.words:
        if args.remove:
            raise InvalidInput("'NAME' is missing", field="name", hint="For example: mailbox alias reviewer --remove")
        return Outcome({"aliases": [known.plain() for known in settings.aliases(inputs.store(args))]}, human="aliases")
    if len(args.words) == 1:
        act = settings.remove_alias if args.remove else settings.find_alias
        data: dict[str, Any] = {"alias": act(inputs.store(args), args.words[0]).plain()}
        return Outcome({**data, "removed": True} if args.remove else data, human="alias")
    if args.remove:
        raise InvalidInput("remove takes the name alone", field="session", hint=f"For example: mailbox alias {args.words[0]} --remove")
    return Outcome({"alias": settings.set_alias(inputs.store(args), *args.words).plain()}, human="alias")


def sweep(args: Arguments) -> Outcome:
    from postroom.mail.sweeping import sweep as verb

    return Outcome({"swept": verb(inputs.store(args), **inputs.given(args, "keep_days")).plain()}, human="swept")


def deliver(args: Arguments) -> Outcome:
    import signal

    from postroom.mail.deliver import Deliverer

    if args.values["command"] is None:
        raise InvalidInput("'command' is missing", field="command", hint="For example: --command './handle.sh'")
    if args.once and args.until_empty:
        raise InvalidInput("once and until-empty exclude each other", field="once", hint="Leave one of them out.")
    named = os.environ.get("MAILBOX_SESSION")
    sessions = args.session or ((named,) if named else ())
    tell = None if args.json else _tell
    deliverer = Deliverer(inputs.store(args), sessions, command=args.values["command"], receiver=args.receiver, tell=tell)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: deliverer.stop())
    return Outcome(deliverer.run(once=args.once, until_empty=args.until_empty).plain(), human="delivered")


def _tell(what: str, message: MailMessage, says: str) -> None:
    from postroom.cli.human import line, paint

    write(1, f"{paint('bold', f'{what:6}')} {line(message.msg_id)}  {line(says)}".rstrip() + "\n")


def _session(args: Arguments) -> str:
    named = os.environ.get("MAILBOX_SESSION") if args.session is None else args.session
    if not named:
        raise InvalidInput("'session' is missing", field="session", hint="Name the mailbox with --session, or set MAILBOX_SESSION.")
    return str(named)


def _msg_id(args: Arguments) -> str:
    named = os.environ.get("MAILBOX_MSG_ID") if args.msg_id is None else args.msg_id
    if not named:
        raise InvalidInput("'msg_id' is missing", field="msg_id", hint="Name the message with --msg-id; `mailbox peek` lists them.")
    return str(named)


def _token(args: Arguments) -> str | None:
    """The token given, or that of the delivery that this process was started for."""
    if args.delivery_token is not None:
        return str(args.delivery_token)
    ours = os.environ.get("MAILBOX_MSG_ID") == _msg_id(args) and os.environ.get("MAILBOX_SESSION") == _session(args)
    return os.environ.get("MAILBOX_DELIVERY_TOKEN") or None if ours else None
