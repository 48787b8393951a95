"""Check where a channel sends to, and with which secret: addresses of servers, e-mail addresses, commands."""

from __future__ import annotations

from postroom.core import checks
from postroom.core.errors import InvalidInput
from postroom.core.limits import MAX_SECRET_CHARS, MAX_TARGET_CHARS
from postroom.core.records.channels import COMMAND, EMAIL, NTFY, WEBHOOK
from postroom.core.text import short_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MIN_WEBHOOK_SECRET_BYTES = 24  # of Standard Webhooks
WEBHOOK_SECRET_PREFIX = "whsec_"  # noqa: S105 - no secret
_KIND_OPTIONS = {
    WEBHOOK: {"secret", "secret_env", "allow_plain"},
    NTFY: {"secret", "secret_env", "allow_plain"},
    EMAIL: {"secret", "secret_env", "allow_plain", "smtp", "from", "reply_to"},
    COMMAND: {"env"},
}
_ADDRESS_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.!#$%&'*+-/=?^_`{|}~@")


def check_target(kind: str, target: str, options: Mapping[str, Any]) -> None:
    """Refuse with `InvalidInput` a target or an option that does not fit the kind of channel."""
    checks.text("target", target)
    if not target.strip() or len(target) > MAX_TARGET_CHARS:
        raise InvalidInput(f"the target is empty or longer than {MAX_TARGET_CHARS} characters", field="target")
    for name in options:
        if name not in _KIND_OPTIONS[kind]:
            field = name.replace("_", "-")
            raise InvalidInput(f"{field} is not for a channel of the kind {kind}", field=field, hint="Leave it out.")
    if "secret" in options and "secret_env" in options:
        raise InvalidInput("secret and secret-env exclude each other", field="secret-env", hint="Leave one of them out.")
    if "secret" in options:
        _check_secret(options["secret"])
    _KIND_CHECKS[kind](target, options)


def split_url(field: str, url: str, schemes: tuple[str, ...]) -> Any:
    """Return the parts of a URL. Refuses another scheme, a missing host, a user, a password, and a fragment."""
    from urllib.parse import urlsplit

    checks.text(field, url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in schemes or not parts.hostname or port == 0 or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidInput(f"{short_repr(url)} is not an address of {' or '.join(schemes)}", field=field, hint=f"Write {schemes[0]}://…")
    if parts.password is not None or (parts.username is not None and not schemes[0].startswith("smtp")) or parts.fragment:
        hint = "Give a secret with --secret-file or --secret-env."
        raise InvalidInput(f"the address in {field} has a password, a user or a fragment", field=field, hint=hint)
    return parts


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, by its name or its address."""
    import ipaddress

    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_public_url(url: str) -> str:
    """Return the address of the server for links, without a final slash."""
    split_url("url", url, ("https", "http"))
    return url.rstrip("/")


def _check_web_target(target: str, options: Mapping[str, Any]) -> None:
    parts = split_url("target", target, ("https", "http"))
    if parts.scheme == "http" and not is_loopback(parts.hostname) and not options.get("allow_plain"):
        raise InvalidInput(
            f"{parts.hostname} would get the message without TLS", field="target", hint="Write https://, or give --allow-plain."
        )


def _check_webhook(target: str, options: Mapping[str, Any]) -> None:
    _check_web_target(target, options)
    if not options.get("secret") and not options.get("secret_env"):
        raise InvalidInput("a webhook is signed, and needs a secret", field="secret-file", hint="Give --secret-file or --secret-env.")
    if options.get("secret"):
        decode_webhook_secret(options["secret"])


def _check_ntfy(target: str, options: Mapping[str, Any]) -> None:
    _check_web_target(target, options)
    topic = target.rstrip("/").rpartition("/")[2]
    if not topic.replace("-", "").replace("_", "").isalnum() or target.count("/") < 3:
        raise InvalidInput("the address of an ntfy topic ends with its name", field="target", hint="Write https://ntfy.sh/my-topic.")


def _check_email(target: str, options: Mapping[str, Any]) -> None:
    check_email_address("target", target)
    for name in ("smtp", "from"):
        if not options.get(name):
            hint = "For example: --smtp smtps://me@mail.example.org --from inbox@example.org"
            raise InvalidInput(f"an e-mail channel needs {name}", field=name, hint=hint)
    check_email_address("from", options["from"])
    if options.get("reply_to"):
        check_email_address("reply-to", options["reply_to"])
    parts = split_url("smtp", options["smtp"], ("smtp", "smtps"))
    if parts.path.strip("/") or parts.query:
        raise InvalidInput("the address of a mail server has no path", field="smtp", hint="Write smtps://user@host:port.")
    if parts.username is not None and not options.get("secret") and not options.get("secret_env"):
        raise InvalidInput(f"the user {parts.username} needs a password", field="secret-file", hint="Give --secret-file or --secret-env.")


def _check_command(target: str, options: Mapping[str, Any]) -> None:
    from postroom.processes.command_environment import check_environment

    if "\0" in target:
        raise InvalidInput("a command cannot contain NUL", field="target")
    check_environment(options.get("env", {}))


_KIND_CHECKS = {WEBHOOK: _check_webhook, NTFY: _check_ntfy, EMAIL: _check_email, COMMAND: _check_command}


def check_email_address(field: str, address: str) -> str:
    """Return an e-mail address of one person, without a display name. Refuses anything that could add a header or a second receiver."""
    local, _, domain = address.rpartition("@") if isinstance(address, str) else ("", "", "")
    if not local or not domain or "@" in local or len(address) > 254 or not _ADDRESS_CHARS.issuperset(address):
        raise InvalidInput(f"{short_repr(address)} is not an e-mail address", field=field, hint="Write name@example.org.")
    return address


def _check_secret(secret: str) -> None:
    checks.text("secret", secret)
    if not secret or len(secret) > MAX_SECRET_CHARS or not secret.isprintable():
        raise InvalidInput(f"a secret is one line of at most {MAX_SECRET_CHARS} characters", field="secret-file")


def decode_webhook_secret(secret: str) -> bytes:
    """Return the key of a webhook's secret, such as `whsec_…` in base64. Refuses with `InvalidInput`, without repeating the secret."""
    import base64

    try:
        key = base64.b64decode(secret.removeprefix(WEBHOOK_SECRET_PREFIX), validate=True)
    except ValueError:
        key = b""
    if len(key) < MIN_WEBHOOK_SECRET_BYTES:
        hint = "`openssl rand -base64 32` prints one."
        raise InvalidInput(f"the secret is not base64 of at least {MIN_WEBHOOK_SECRET_BYTES} bytes", field="secret-file", hint=hint)
    return key


def new_webhook_secret() -> str:
    """Return a new secret in the form of Standard Webhooks."""
    import base64
    from os import urandom

    return WEBHOOK_SECRET_PREFIX + base64.b64encode(urandom(32)).decode()
