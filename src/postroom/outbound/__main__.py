"""The process that sends one alert: `mailbox`'s delivery engine starts it for each mail in the mailbox of a channel.

Exit status 0 acks the mail: it was sent now or before, or it is not wanted any more. Any other status nacks it, with the reason that is
printed on standard error. It is a process of its own so that a server that never answers can be ended.
"""

from __future__ import annotations

import os
import sys

from postroom.core.errors import InvalidState, NotFound, Refusal
from postroom.core.records.channels import COMMAND, EMAIL, NTFY, WEBHOOK, AlertContent
from postroom.outbound.web_requests import SendFailure, send_ntfy, send_webhook
from postroom.people.channels import content
from postroom.people.channels.queueing import make_sender_name
from postroom.store import open_store
from postroom.store.location import read_url_note


def main() -> int:
    """Send the alert of the mail that the environment names."""
    session, alert_id, location = (os.environ[name] for name in ("MAILBOX_SESSION", "MAILBOX_MSG_ID", "INBOX_DB"))
    try:
        if os.environ["MAILBOX_FROM"] != make_sender_name(session, alert_id):
            raise NotFound("this mail was not sent by `inbox`", hint="Only `inbox` itself sends mail to a channel.")
        store = open_store(location, door="cli")
        made = content.prepare_alert(store, alert_id, session, read_url_note(location))
        if made is not None:
            send_alert(made)
            content.record_sent(store, made.alert)
    except (Refusal, SendFailure) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def send_alert(made: AlertContent) -> None:
    """Send an alert by the kind of its channel."""
    from postroom.outbound.commands import run_command
    from postroom.outbound.email_messages import send_email

    senders = {WEBHOOK: send_webhook, NTFY: send_ntfy, EMAIL: send_email, COMMAND: run_command}
    senders[made.channel.kind](made, _find_secret(made))


def _find_secret(made: AlertContent) -> str | None:
    """Return the secret of a channel: the stored one, or that of the variable which the channel names."""
    variable = made.channel.options.get("secret_env")
    if variable is None:
        return made.secret
    if variable not in os.environ:
        hint = "Set it for the server, or for `channel run`."
        raise InvalidState(f"the variable {variable} with the channel's secret is not set", hint=hint)
    return os.environ[variable]


if __name__ == "__main__":
    sys.exit(main())
