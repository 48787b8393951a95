"""Handlers of `inbox channel …`."""

from __future__ import annotations

import os

from postroom.cli.framework.output import Outcome, write_all
from postroom.cli.inbox import inputs
from postroom.core.errors import InvalidInput, InvalidState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.framework.parser import Arguments
    from postroom.core.records.channels import Alert
    from postroom.core.records.mail import MailMessage
    from postroom.store.interface import Store

MAX_SECRET_BYTES = 4096
MAX_MAIL_BYTES = 10 * 1024 * 1024


def handle_add(args: Arguments) -> Outcome:
    from postroom.people.channels.verbs import add_channel
    from postroom.processes.command_environment import take_from_environment

    kind, target = args.words
    store = inputs.open_store_for(args)
    options: dict[str, Any] = inputs.given_options(args, "secret_env", "smtp", "from", "reply_to")
    options |= {"allow_plain": args.allow_plain, "env": take_from_environment(args.env)}
    made_secret = False
    if args.secret_file is not None:
        options["secret"], made_secret = _read_secret(kind, args.secret_file)
    fields = inputs.given_options(args, "sends", "quiet", "time_zone", "digest_at", "delay_seconds", "remind_seconds", "url")
    if args.time_zone is None:
        fields["time_zone"] = os.environ.get("TZ", "").lstrip(":") or "UTC"
    person = "user" if args.person is None else args.person
    channel = add_channel(store, person=person, kind=kind, target=target, options=options, **fields)
    data: dict[str, Any] = {"channel": channel.to_json()}
    if made_secret:
        _write_secret(args.secret_file, options["secret"])
        data["secret_file"] = os.path.abspath(args.secret_file)
    return Outcome(data, view="channel added")


def _read_secret(kind: str, path: str) -> tuple[str, bool]:
    """Return the secret in a file, and whether it is new. For a webhook, a file that does not exist stands for a new secret."""
    from postroom.core.records.channels import WEBHOOK
    from postroom.people.channels.targets import new_webhook_secret

    if kind == WEBHOOK and path != "-" and not os.path.lexists(path):
        return new_webhook_secret(), True
    text = inputs.read_file_bytes(path, field="secret-file", max_bytes=MAX_SECRET_BYTES).decode(errors="replace")
    return text.strip(), False


def _write_secret(path: str, secret: str) -> None:
    from postroom.store.files.private_files import write_private_file

    try:
        write_private_file(path, secret + "\n")
    except OSError as error:
        hint = "Remove the channel, and add it again with a file that can be written."
        raise InvalidState(f"the channel was added, but {path} cannot be written: {error.strerror}", hint=hint) from None


def handle_list(args: Arguments) -> Outcome:
    from postroom.people.channels.verbs import list_channels

    found = list_channels(inputs.open_store_for(args), person=args.person).channels
    return Outcome({"channels": [channel.to_json() for channel in found]}, view="channel list")


def handle_show(args: Arguments) -> Outcome:
    from postroom.people.channels.verbs import show_channel

    return Outcome({"channel": show_channel(inputs.open_store_for(args), args.words[0]).to_json()}, view="channel shown")


def handle_remove(args: Arguments) -> Outcome:
    from postroom.people.channels.verbs import remove_channel

    return Outcome({"channel": remove_channel(inputs.open_store_for(args), args.words[0]).to_json()}, view="channel removed")


def handle_test(args: Arguments) -> Outcome:
    from postroom.mail.deliver import Deliverer
    from postroom.outbound.sender import RECEIVER, SEND_COMMAND, SEND_SECONDS
    from postroom.people.channels.content import drop_alert
    from postroom.people.channels.verbs import send_test_alert, show_channel

    store = inputs.open_store_for(args)
    alert, session = send_test_alert(store, args.words[0]), show_channel(store, args.words[0]).session
    Deliverer(store, [session], command=SEND_COMMAND, receiver=RECEIVER, timeout_seconds=SEND_SECONDS).run(until_empty=True)
    reason = _wait_for_sending(store, alert, SEND_SECONDS)
    if reason:
        drop_alert(store, alert.alert_id, "the test failed")
        hint = "Mend the channel, or remove it and add it again."
        raise InvalidState(f"the test message was not accepted: {reason}", hint=hint, channel_id=args.words[0])
    return Outcome({"channel_id": alert.channel_id, "alert_id": alert.alert_id, "state": "sent"}, view="channel tested")


def _wait_for_sending(store: Store, alert: Alert, seconds: float) -> str:
    """Wait until an alert was sent, by this process or by a server that took it first. Return why it was not, or an empty text."""
    from postroom.mail.reading import show
    from postroom.people.channels.content import find_alert
    from postroom.people.channels.planning import ALERTS_TOPIC
    from postroom.store.wait_loop import wait_until

    def find_reason() -> str | None:
        state = find_alert(store, alert.alert_id).state
        failures = [step.facts.get("reason") for step in show(store, alert.alert_id).steps if step.step == "nacked"]
        if failures:
            return str(failures[-1])
        return None if state == "queued" else "" if state == "sent" else f"the message is {state}"

    found = wait_until(store, find_reason, seconds, topics=(ALERTS_TOPIC,))
    return f"nobody has sent it within {seconds:g} seconds" if found is None else found


def handle_run(args: Arguments) -> Outcome:
    import signal

    from postroom.outbound.sender import AlertSender

    store = inputs.open_store_for(args)
    if store.is_remote:
        raise InvalidInput("the server of that store sends by itself", field="db", hint="Leave it to the server.")
    sender = AlertSender(store, syncs_questions=True, report_step=None if args.json else _print_step)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sender.stop())
    return Outcome(sender.run(until_empty=args.until_empty).to_json(), view="channel sent")


def _print_step(step: str, message: MailMessage, text: str) -> None:
    from postroom.cli.framework.terminal import colour_text, one_line

    write_all(1, f"{colour_text('bold', f'{step:6}')} {one_line(message.msg_id)}  {one_line(text)}".rstrip() + "\n")


def handle_receive(args: Arguments) -> Outcome:
    from postroom.outbound.email_replies import EMAIL_DOOR, parse_reply, to_answer
    from postroom.people.channels.links import answer_question_link, open_question_link

    store = inputs.open_store_for(args)
    mail = parse_reply(inputs.read_file_bytes("-", field="mail", max_bytes=MAX_MAIL_BYTES))
    if mail.ignored is not None:
        return Outcome({"answered": False, "reason": mail.ignored}, view="channel received")
    entry = open_question_link(store, mail.token)
    assert entry.ask is not None  # a link opens questions only
    result = answer_question_link(store.with_door(EMAIL_DOOR), mail.token, **to_answer(mail.text, entry.ask))
    reply = result.reply
    data = {"answered": True, "question_id": entry.question_id, "entry_id": entry.id, "person": reply.person, "answer": reply.body}
    return Outcome({**data, "door": reply.door}, view="channel received")
