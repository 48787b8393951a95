"""Callers: who asks, by which door. A person comes with a cookie or a bearer token, an agent with its workspace's token or its own."""

from __future__ import annotations

from collections import OrderedDict
from http.cookies import CookieError, SimpleCookie
from time import monotonic

from starlette.datastructures import Headers

from postroom.core.entries import Workspace
from postroom.core.errors import Forbidden, TooMany, Unauthenticated
from postroom.people import passes, tokens
from postroom.store.port import Transaction

COOKIE = "postroom_session"
REMEMBERED = 10_000
Token = tuple[str, str]  # with the door that it came in by


class Caller:
    """A person, or an agent: of a workspace, or of none."""

    __slots__ = ("agent", "door", "name", "workspace")

    def __init__(self, name: str, door: str, workspace: Workspace | None = None, *, agent: bool = False) -> None:
        self.name = name
        self.door = door
        self.workspace = workspace
        self.agent = agent or workspace is not None

    def person(self) -> str:
        """The person, or a refusal: an agent never speaks as one."""
        if self.agent:
            raise Forbidden("this is for people; the token is an agent's", hint="Sign in, or use a person's token.")
        return self.name


def token_of(headers: Headers) -> Token | None:
    """The token that a request brings, and its door."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip(), "http"
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return None if cookie is None else (cookie.value, "web")


def identify(tx: Transaction, token: str, door: str) -> Caller:
    """Whose token it is. Looked up each time, so that one that was revoked is void at once."""
    kind, name = passes.holder(tx, token)
    if kind in passes.OF_PEOPLE:
        return Caller(name, door)
    if kind == passes.AGENT and door != "web":
        return Caller(name, door, agent=True)
    found = None if door == "web" else tx.one(tx.sql.workspace_of_token, token_hash=tokens.hashed(token))
    if found is None:
        raise Unauthenticated("this token is not valid", hint="Sign in again, or ask for a new token.")
    workspace = Workspace(*found)
    return Caller(workspace.agent, door, workspace)


class Buckets:
    """How often each may come: so many a second, and so many at once."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> None:
        left = self.pause(who)
        if left:
            pause = max(1, round(left + 0.5))
            raise TooMany(f"more than {self._rate:g} requests a second", hint=f"Come back in {pause} s.", retry_after=pause)

    def pause(self, who: str) -> float:
        """Take one, or say in how many seconds there is one to take."""
        now = monotonic()
        left, since = self._left.pop(who, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        if left < 1:
            self._left[who] = (left, now)
            return (1 - left) / self._rate
        self._left[who] = (left - 1, now)
        if len(self._left) > REMEMBERED:
            self._left.popitem(last=False)
        return 0
