"""Checks of a server, for `inbox doctor`. They change nothing."""

from __future__ import annotations

from postroom import __version__
from postroom.core.errors import Refusal, StoreTrouble
from postroom.core.records.health import FAIL, OK, WARN, Finding
from postroom.store.remote.engine import RemoteStore

PROBE_VERB = "work.list_agents"


def examine_store_server(location: str) -> Finding:
    """Check the server whose store is used. Raises the refusal of a server that is away, or that does not recognise the caller."""
    store = RemoteStore(location)
    store.call(PROBE_VERB, (), {"limit": 1})
    return _compare_versions(store.server_version, "answers, and recognises the caller")


def examine_running_server(url: str, token: str) -> Finding:
    """Check the server that serves a local store, by the address and the person's token that it keeps for this user."""
    store = RemoteStore(url, token=token)
    try:
        store.call(PROBE_VERB, (), {"limit": 1})
    except StoreTrouble as refusal:
        why = "The page, MCP and agents on other machines cannot reach the store. Commands here work without it."
        return Finding("server", WARN, str(refusal), why, "inbox serve")
    except Refusal:  # it answers. The token is not that of this server, so it does not tell its version
        return Finding("server", OK, f"{url} answers")
    finally:
        store.close()
    return _compare_versions(store.server_version, f"{url} answers")


def find_trouble(url: str) -> str:
    """Return why no server answers at an address, or "" if one does."""
    store = RemoteStore(url, token="")
    try:
        store.call(PROBE_VERB, (), {"limit": 1})
    except StoreTrouble as refusal:
        return str(refusal)
    except Refusal:  # it answers, and does not know us
        pass
    finally:
        store.close()
    return ""


def _compare_versions(version: str, said: str) -> Finding:
    if version == __version__:
        return Finding("server", OK, f"{said}, version {version}")
    found = f"{said}, version {version or 'unknown'}; this program is {__version__}"
    state = WARN if version else FAIL
    return Finding(
        "server", state, found, "One of them does not know what the other one can do.", "Upgrade the older one, and restart the server."
    )
