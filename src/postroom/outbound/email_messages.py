"""Send alerts by e-mail over SMTP. The address for replies and the id of the message carry the token of the link."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postroom.outbound import rendering
from postroom.outbound.web_requests import SendFailure
from postroom.people.channels.targets import is_loopback, split_url

if TYPE_CHECKING:
    from email.message import EmailMessage

    from postroom.core.records.channels import AlertContent

SMTP_SECONDS = 15.0
SMTP_PORT, SMTPS_PORT = 587, 465


def make_email(content: AlertContent) -> EmailMessage:
    """Return an alert as an e-mail. A repeat has the same Message-ID, so that mail programs show it once."""
    from email.message import EmailMessage
    from email.utils import formatdate

    options = content.channel.options
    message = EmailMessage()
    message["From"], message["To"] = options["from"], content.channel.target
    message["Subject"] = rendering.render_subject(content)
    message["Date"] = formatdate(usegmt=True)
    domain = options["from"].rpartition("@")[2]
    message["Message-ID"] = f"<{'.'.join(filter(None, (content.token, content.alert.alert_id)))}@{domain}>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: keeps vacation programs from answering
    can_reply = bool(content.token and options.get("reply_to"))
    if can_reply:
        message["Reply-To"] = make_reply_address(options["reply_to"], str(content.token))
    message.set_content(rendering.render_text(content, can_reply=can_reply))
    return message


def make_reply_address(address: str, token: str) -> str:
    """Return the address for replies to one question: `inbox+TOKEN@example.org`."""
    local, _, domain = address.rpartition("@")
    return f"{local}+{token}@{domain}"


def send_email(content: AlertContent, password: str | None) -> None:
    """Hand an alert to the mail server of its channel. Raises `SendFailure` with the server's reason."""
    import smtplib
    import socket
    import ssl

    parts = split_url("smtp", content.channel.options["smtp"], ("smtp", "smtps"))
    is_plain = is_loopback(parts.hostname) or content.channel.options.get("allow_plain", False)
    context = ssl.create_default_context()
    name = socket.gethostname()  # the default asks the DNS
    try:
        if parts.scheme == "smtps":
            server: smtplib.SMTP = smtplib.SMTP_SSL(parts.hostname, parts.port or SMTPS_PORT, name, timeout=SMTP_SECONDS, context=context)
        else:
            server = smtplib.SMTP(parts.hostname, parts.port or SMTP_PORT, name, SMTP_SECONDS)
        with server:
            if parts.scheme == "smtp" and not is_plain:
                server.starttls(context=context)
            if parts.username is not None:
                server.login(parts.username, password or "")
            server.send_message(make_email(content))
    except OSError as error:  # smtplib.SMTPException is one
        raise SendFailure(f"{parts.hostname} did not take the mail: {type(error).__name__}: {error}") from None
