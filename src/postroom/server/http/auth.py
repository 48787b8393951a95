"""Authentication of requests, and rate limits. A person sends a cookie or a bearer token, an agent its workspace's token or its own."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from time import monotonic

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from postroom.core.errors import Forbidden, TooMany, Unauthenticated
from postroom.core.records.passes import Pass
from postroom.core.records.people import Workspace
from postroom.people.access import passes, tokens
from postroom.server.http.connections.unix_socket import DOOR as UNIX_DOOR
from postroom.store.interface import Transaction

COOKIE_PREFIX = "postroom_session_"  # a cookie goes to every port of its host, so the port is a part of its name
PAGE_KEY_HEADER = "x-postroom-key"
COOKIE_CHARS = 4 + 32  # of a session's token: its prefix and half of its digits
MAX_TRACKED_CALLERS = 10_000
Token = tuple[str, str]  # the token, and the door (channel) that it came through


class Caller:
    """The author of a request: a person, or an agent with or without a workspace. `token` is None if the connection itself is trusted.

    `used_pass` is None for a workspace's token. `is_leader`: an agent whose token has the scope `all`.
    """

    __slots__ = ("agent", "door", "is_leader", "name", "token", "used_pass", "workspace")

    def __init__(
        self,
        name: str,
        door: str,
        workspace: Workspace | None = None,
        *,
        agent: bool = False,
        is_leader: bool = False,
        token: str | None = None,
        used_pass: Pass | None = None,
    ) -> None:
        self.name = name
        self.door = door
        self.workspace = workspace
        self.agent = agent or workspace is not None
        self.used_pass = used_pass
        self.is_leader = is_leader
        self.token = token

    @property
    def is_local(self) -> bool:
        """Whether the caller came over the Unix socket of the owner, without a token."""
        return self.door == UNIX_DOOR and self.token is None

    def require_person(self) -> str:
        """Return the name of the person. Refuses an agent with `Forbidden`: it cannot act as a person."""
        if self.agent:
            raise Forbidden("this is for people; the token is an agent's", hint="Sign in, or use a person's token.")
        return self.name


def read_token(headers: Headers) -> Token | None:
    """Return the token of a request and its door: "http" for a bearer token, "web" for a session. None if there is no token.

    A session needs its cookie and its page key: other ports of the host get the cookie too, but only our page can read the key.
    """
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip(), "http"
    # http.cookies gives up at a malformed cookie, and other programs on this host may have set one.
    cookie, page_key = cookie_parser(headers.get("cookie", "")).get(cookie_name(headers)), headers.get(PAGE_KEY_HEADER)
    return (cookie + page_key, "web") if cookie and page_key else None


def cookie_name(headers: Headers) -> str:
    """Return the name of the session cookie, by the port that the browser connects to."""
    port = headers.get("host", "").rpartition(":")[2]
    return COOKIE_PREFIX + (port if port.isascii() and port.isdigit() else "default")


def split_session_token(token: str) -> tuple[str, str]:
    """Return the halves of a session's token: the value of the cookie, and the page key. Each has 128 random bits."""
    return token[:COOKIE_CHARS], token[COOKIE_CHARS:]


def identify_caller(tx: Transaction, token: str, door: str) -> Caller:
    """Return the owner of a token. Refuses with `Unauthenticated`. Not cached, so that a revocation has effect at once.

    A transaction that writes is refused in the end, too, if the token is revoked while it waits for a lock.
    """
    invalid = Unauthenticated("this token is not valid", hint="Sign in again, or ask for a new token.")
    token_hash = tokens.hash_token(token)
    known = None if token.startswith(f"{tokens.WORKSPACE_PREFIX}_") else passes.find_pass(tx, token)
    if known is not None and (known.kind in passes.PERSON_KINDS or (known.kind == passes.AGENT and door != "web")):
        tx.require_until_commit(invalid, tx.sql.pass_find, token_hash=token_hash)
        is_agent = known.kind == passes.AGENT
        is_leader = is_agent and known.scope == passes.ALL_SCOPE
        return Caller(known.person, door, agent=is_agent, is_leader=is_leader, token=token, used_pass=known)
    workspace = None if door == "web" else tx.fetch_one(tx.sql.workspace_of_token, token_hash=token_hash)
    if workspace is None:
        raise invalid
    tx.require_until_commit(invalid, tx.sql.workspace_of_token, token_hash=token_hash)
    return Caller(workspace.agent, door, workspace, token=token)


def verify_token(tx: Transaction, caller: Caller) -> None:
    """Refuse with `Unauthenticated` if the token of a caller was revoked, or belongs to another caller now."""
    if caller.token is None:
        return
    now = identify_caller(tx, caller.token, caller.door)
    if (now.name, now.agent, now.is_leader) != (caller.name, caller.agent, caller.is_leader):
        raise Unauthenticated("this token belongs to another caller now", hint="Try again.")


def network_of(address: str) -> str:
    """Return an IPv4 address as it is, and the /64 network of an IPv6 address: one client has all addresses of it."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address) or parsed.ipv4_mapped is not None:
        return str(getattr(parsed, "ipv4_mapped", None) or parsed)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


class RateLimiter:
    """A token bucket for each caller: `rate` units a second, and `burst` units at once. `what` describes the limit in a refusal."""

    def __init__(self, rate: float, burst: float, what: str = "") -> None:
        self._what = what or f"{rate:g} requests a second"
        self._rate = rate
        self._burst = burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check_rate(self, caller_key: str, cost: float = 1) -> None:
        """Count a request of a cost in units. Refuses with `TooMany` if the caller has to wait."""
        wait_seconds = self.seconds_until_allowed(caller_key, cost)
        if wait_seconds:
            pause = max(1, round(wait_seconds + 0.5))
            raise TooMany(f"more than {self._what}", hint=f"Come back in {pause} s.", retry_after=pause)

    def seconds_until_allowed(self, caller_key: str, cost: float = 1) -> float:
        """Count a request and return 0, or return the number of seconds until one is allowed.

        A request may cost more than is left, as long as something is left. The next one waits longer for it.
        """
        now = monotonic()
        tokens_left, since = self._buckets.pop(caller_key, (self._burst, now))
        tokens_left = min(self._burst, tokens_left + (now - since) * self._rate)
        if tokens_left < 1:
            self._buckets[caller_key] = (tokens_left, now)
            return (1 - tokens_left) / self._rate
        self._buckets[caller_key] = (tokens_left - cost, now)
        if len(self._buckets) > MAX_TRACKED_CALLERS:
            self._buckets.popitem(last=False)
        return 0
