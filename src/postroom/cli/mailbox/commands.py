"""Handlers of the program `mailbox`."""

from __future__ import annotations

import os

from postroom.cli.framework.output import NOTHING, Outcome, write_all
from postroom.cli.inbox import inputs
from postroom.core import limits
from postroom.core.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from postroom.cli.framework.parser import Arguments
    from postroom.core.records.mail import Delivery, MailMessage


def handle_enqueue(args: Arguments) -> Outcome:
    from postroom.mail.mailbox import enqueue

    if args.batch is not None:
        return _enqueue_batch(args)
    message = _read_messages_file(args, "message-file", _parse_json) if args.message_file is not None else _message_from_flags(args)
    return Outcome(enqueue(inputs.open_store_for(args), message, strict=args.strict).to_json(), view="queued")


def _enqueue_batch(args: Arguments) -> Outcome:
    from postroom.mail.mailbox import enqueue_all

    acks = enqueue_all(inputs.open_store_for(args), _read_messages_file(args, "batch", _parse_json_lines), strict=args.strict)
    return Outcome({"messages": [ack.to_json() for ack in acks], "stored": sum(ack.queued for ack in acks)}, view="queued all")


def _message_from_flags(args: Arguments) -> dict[str, Any]:
    from postroom.mail.drafts import PROTOCOL_VERSION

    if args.payload is not None and args.payload_file is not None:
        raise InvalidInput("payload and payload-file exclude each other", field="payload", hint="Leave one of them out.")
    message = inputs.given_options(args, "from", "to", "payload", "msg_id", "created_at")
    message["protocol_version"] = PROTOCOL_VERSION
    if args.payload_file is not None:
        hint = "A payload is text; encode it, for example as base64."
        message["payload"] = inputs.read_file_text(
            args.payload_file, field="payload-file", hint=hint, max_bytes=limits.MAX_MAIL_PAYLOAD_BYTES
        )
    return message


def _read_messages_file(args: Arguments, flag: str, parse: Callable[[str], Any]) -> Any:
    """Read whole messages from the file that `flag` names. Refuses flags that describe a message beside it."""
    own_key = flag.replace("-", "_")
    given = inputs.given_options(args, "from", "to", "payload", "payload_file", "msg_id", "created_at", "message_file", "batch")
    for other in [name.replace("_", "-") for name in given if name != own_key]:
        raise InvalidInput(f"{flag} holds whole messages: {other} cannot be given beside it", field=other, hint="Leave one of them out.")
    hint = "A message is JSON, and JSON is UTF-8."
    text = inputs.read_file_text(args.values[own_key], field=flag, hint=hint, max_bytes=limits.MAX_BATCH_FILE_BYTES)
    return parse(text.removeprefix("\ufeff"))  # a byte order mark, which some editors write


def _parse_json(text: str, where: str = "the message") -> Any:
    from postroom._fastpath import json_text as jsontext

    try:
        return jsontext.loads(text)
    except ValueError as error:
        hint = 'For example: {"from": "lead", "to": "analyst", "payload": "…"}'
        raise InvalidInput(f"{where} is not JSON: {error}", field="message", hint=hint) from None


def _parse_json_lines(text: str) -> list[Any]:
    return [_parse_json(line, f"message {number}") for number, line in enumerate(filter(str.strip, text.split("\n")), 1)]


def handle_dequeue(args: Arguments) -> Outcome:
    from postroom.mail.mailbox import dequeue

    return _delivery_outcome(dequeue(inputs.open_store_for(args), _require_session(args), receiver=args.receiver))


def handle_wait(args: Arguments) -> Outcome:
    from postroom.cli.inbox.waiting import interruptible
    from postroom.mail.waiting import wait

    session, store = _require_session(args), inputs.open_store_for(args, owns_process=True)
    with interruptible():
        return _delivery_outcome(wait(store, session, receiver=args.receiver, **inputs.given_options(args, "timeout_seconds")))


def _delivery_outcome(delivery: Delivery | None) -> Outcome:
    if delivery is None:
        return Outcome({"message": None}, view="no mail", exit_code=NOTHING)
    recovery = f"Message {delivery.message.msg_id} is delivered again when its in-flight time is over; `mailbox peek` shows when."
    return Outcome(delivery.to_json(), view="delivery", recovery=recovery)


def handle_ack(args: Arguments) -> Outcome:
    from postroom.mail import mailbox

    session, msg_id = _require_session(args), _require_msg_id(args)
    if not args.take_next:
        acked = mailbox.ack(inputs.open_store_for(args), session, msg_id, **_delivery_options(args))
        return Outcome(acked.to_json(), view="settled")
    acked, taken = mailbox.ack_and_dequeue(inputs.open_store_for(args), session, msg_id, receiver=args.receiver, **_delivery_options(args))
    return Outcome({**acked.to_json(), "next": taken.to_json() if taken else None}, view="settled")


def handle_nack(args: Arguments) -> Outcome:
    from postroom.mail.mailbox import nack

    session, msg_id = _require_session(args), _require_msg_id(args)
    reason = inputs.given_options(args, "reason")
    nacked = nack(inputs.open_store_for(args), session, msg_id, **_delivery_options(args), **reason)
    return Outcome(nacked.to_json(), view="settled")


def handle_extend(args: Arguments) -> Outcome:
    from postroom.mail.mailbox import extend

    session, msg_id = _require_session(args), _require_msg_id(args)
    extended = extend(inputs.open_store_for(args), session, msg_id, seconds=args.seconds, **_delivery_options(args))
    return Outcome(extended.to_json(), view="extended")


def handle_peek(args: Arguments) -> Outcome:
    from postroom.mail.reading import peek

    session = _require_session(args)
    page = peek(inputs.open_store_for(args), session, acked=args.acked, **inputs.given_options(args, "limit", "after"))
    return Outcome(page.to_json(), view="acked" if args.acked else "waiting")


def handle_purge(args: Arguments) -> Outcome:
    from postroom.mail.sweeping import purge

    session = _require_session(args)
    return Outcome({"purged": purge(inputs.open_store_for(args), session)}, view="purged")


def handle_peek_dead_letter(args: Arguments) -> Outcome:
    from postroom.mail.dead_letters import peek_dead_letter

    session = _require_session(args)
    page = peek_dead_letter(inputs.open_store_for(args), session, **inputs.given_options(args, "limit", "after"))
    return Outcome(page.to_json(), view="dead")


def handle_retry_dead_letter(args: Arguments) -> Outcome:
    from postroom.mail.dead_letters import retry_dead_letter

    session = _require_session(args)
    retried = retry_dead_letter(inputs.open_store_for(args), session, **_dead_letter_options(args))
    return Outcome({"retried": retried}, view="retried letters")


def handle_purge_dead_letter(args: Arguments) -> Outcome:
    from postroom.mail.dead_letters import purge_dead_letter

    session = _require_session(args)
    if args.all and args.msg_id:
        raise InvalidInput("all and msg-id exclude each other", field="all", hint="Leave one of them out.")
    purged = purge_dead_letter(inputs.open_store_for(args), session, everything=args.all, **_dead_letter_options(args))
    return Outcome({"purged": purged}, view="purged")


def _dead_letter_options(args: Arguments) -> dict[str, Any]:
    """Return the ids of the dead letters, if any were given, and their sender."""
    return {"msg_id": args.msg_id or None, "sent_by": args.values["from"]}


def handle_show(args: Arguments) -> Outcome:
    from postroom.mail.reading import show

    msg_id = _require_msg_id(args)
    options = inputs.given_options(args, "limit", "after")
    return Outcome(show(inputs.open_store_for(args), msg_id, sent_by=args.values["from"], **options).to_json(), view="receipt")


def handle_sessions(args: Arguments) -> Outcome:
    from postroom.mail.reading import sessions

    return Outcome(sessions(inputs.open_store_for(args), **inputs.given_options(args, "limit", "after")).to_json(), view="mailboxes")


def handle_policy(args: Arguments) -> Outcome:
    from postroom.mail import settings

    session, store = _require_session(args), inputs.open_store_for(args)
    changes = inputs.given_options(args, "base_backoff_secs", "max_retries", "inflight_timeout_secs", "ttl_secs")
    policy = settings.set_policy(store, session, **changes) if changes else settings.policy(store, session)
    return Outcome({"policy": policy.to_json()}, view="policy")


def handle_alias(args: Arguments) -> Outcome:
    from postroom.mail import settings

    if not args.words:
        if args.remove:
            raise InvalidInput("'NAME' is missing", field="name", hint="For example: mailbox alias reviewer --remove")
        options = inputs.given_options(args, "limit", "after")
        return Outcome(settings.aliases(inputs.open_store_for(args), **options).to_json(), view="aliases")
    if len(args.words) == 1:
        verb = settings.remove_alias if args.remove else settings.find_alias
        data: dict[str, Any] = {"alias": verb(inputs.open_store_for(args), args.words[0]).to_json()}
        return Outcome({**data, "removed": True} if args.remove else data, view="alias")
    if args.remove:
        hint = f"For example: mailbox alias {args.words[0]} --remove"
        raise InvalidInput("--remove takes only the name of the alias", field="session", hint=hint)
    return Outcome({"alias": settings.set_alias(inputs.open_store_for(args), *args.words).to_json()}, view="alias")


def handle_sweep(args: Arguments) -> Outcome:
    from postroom.mail.sweeping import sweep

    return Outcome({"swept": sweep(inputs.open_store_for(args), **inputs.given_options(args, "keep_days")).to_json()}, view="swept")


def handle_deliver(args: Arguments) -> Outcome:
    import signal

    from postroom.cli.framework.step_log import choose_reporter
    from postroom.mail.deliver import Deliverer

    if args.values["command"] is None:
        raise InvalidInput("'command' is missing", field="command", hint="For example: --command './handle.sh'")
    if args.once and args.until_empty:
        raise InvalidInput("once and until-empty exclude each other", field="once", hint="Leave one of them out.")
    default_session = os.environ.get("MAILBOX_SESSION")
    sessions = args.session or ((default_session,) if default_session else ())
    tell = choose_reporter(args, "deliver", _print_progress, _name_message)
    options = {"receiver": args.receiver, "timeout_seconds": args.timeout_seconds, "report_step": tell}
    deliverer = Deliverer(inputs.open_store_for(args), sessions, command=args.values["command"], **options)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: deliverer.stop())
    return Outcome(deliverer.run(once=args.once, until_empty=args.until_empty).to_json(), view="delivered")


def _print_progress(step: str, message: MailMessage, text: str) -> None:
    from postroom.cli.framework.terminal import colour_text, one_line

    write_all(1, f"{colour_text('bold', f'{step:6}')} {one_line(message.msg_id)}  {one_line(text)}".rstrip() + "\n")


def _name_message(message: MailMessage) -> dict[str, str]:
    return {"session": message.to, "msg_id": message.msg_id, "from": message.sender}


def _require_session(args: Arguments) -> str:
    """Return the mailbox in `--session` or `MAILBOX_SESSION`."""
    session = os.environ.get("MAILBOX_SESSION") if args.session is None else args.session
    if not session:
        raise InvalidInput("'session' is missing", field="session", hint="Name the mailbox with --session, or set MAILBOX_SESSION.")
    return str(session)


def _require_msg_id(args: Arguments) -> str:
    """Return the message id in `--msg-id` or `MAILBOX_MSG_ID`."""
    msg_id = os.environ.get("MAILBOX_MSG_ID") if args.msg_id is None else args.msg_id
    if not msg_id:
        raise InvalidInput("'msg_id' is missing", field="msg_id", hint=f"For example: {args.command.example}. `mailbox peek` lists them.")
    return str(msg_id)


def _delivery_options(args: Arguments) -> dict[str, Any]:
    """Return the delivery token and the sender of a message, as the arguments of ack, nack and extend."""
    return {"delivery_token": _delivery_token(args), "sent_by": args.values["from"]}


def _delivery_token(args: Arguments) -> str | None:
    """Return `--delivery-token`, or `MAILBOX_DELIVERY_TOKEN` if the message is the one that `mailbox deliver` started us for."""
    if args.delivery_token is not None:
        return str(args.delivery_token)
    if os.environ.get("MAILBOX_MSG_ID") != _require_msg_id(args) or os.environ.get("MAILBOX_SESSION") != _require_session(args):
        return None
    return os.environ.get("MAILBOX_DELIVERY_TOKEN") or None
