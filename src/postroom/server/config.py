"""The settings of the server. They are checked before its libraries are loaded, so that `inbox serve` refuses quickly."""

from __future__ import annotations

import ipaddress
import os

from postroom.core import checks, limits
from postroom.core.errors import InvalidInput
from postroom.core.records import Record

LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")


class Settings(Record):
    """The settings of the server, from the options of `inbox serve`. `rate`: requests a second of one caller."""

    location: str
    host: str = "127.0.0.1"
    port: int = 8420
    uds: str | None = None
    tcp: bool = True
    data: str | None = None
    dev: bool = False
    person: str = "user"
    tls_cert: str | None = None
    tls_key: str | None = None
    behind_proxy: bool = False
    allow_hosts: tuple[str, ...] = ()
    rate: float = 500.0
    max_listeners: int = 2000
    max_waits: int = 500
    max_sockets: int = 1000
    max_mib_per_minute: int = limits.MAX_BYTES_PER_MINUTE // limits.MIB
    log_format: str = "text"
    log_level: str = "warning"

    @property
    def is_secure(self) -> bool:
        """Return whether clients connect with TLS: to the server, or to a proxy in front of it."""
        return self.tls_cert is not None or self.behind_proxy


def check_settings(settings: Settings) -> None:
    """Refuse settings that cannot work, or that would send messages over a network without TLS, with `InvalidInput`."""
    checks.choice("log-format", settings.log_format, LOG_FORMATS)
    checks.choice("log-level", settings.log_level, LOG_LEVELS)
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise InvalidInput("TLS needs a certificate and its key", field="tls-cert", hint="Give --tls-cert and --tls-key.")
    if settings.tls_cert is not None:
        import ssl

        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_cert, settings.tls_key)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise InvalidInput(f"the certificate cannot be used: {error}", field="tls-cert", hint="Check both files.") from None
    if settings.data is not None:
        try:
            os.makedirs(settings.data, mode=0o700, exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"{settings.data} cannot be used: {error.strerror}", field="data", hint="Name a folder.") from None
    if settings.uds is not None:
        checks.path("uds", settings.uds)
    if not settings.tcp and settings.uds is None:
        raise InvalidInput(
            "without TCP and without a Unix socket there is no way to connect", field="no-tcp", hint="Give --uds PATH beside it."
        )
    if not settings.tcp or is_loopback(settings.host):
        return
    if settings.dev:
        raise InvalidInput(f"--dev lets everybody in, and {settings.host} is not this machine alone", field="dev", hint="Leave one out.")
    if not settings.is_secure:
        hint = "Give --tls-cert and --tls-key, or --behind-proxy if a proxy in front speaks TLS."
        raise InvalidInput(f"other machines can reach {settings.host}, and there is no TLS", field="host", hint=hint)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
