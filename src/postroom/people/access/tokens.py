"""Make and hash secret tokens. A token is shown once and stored only as its hash."""

from __future__ import annotations

from os import urandom

WORKSPACE_PREFIX = "prw"  # of a workspace's token. Passes have other prefixes


def new_token(prefix: str) -> str:
    """Return a token of 256 random bits that is safe in a URL and in a header."""
    return f"{prefix}_{urandom(32).hex()}"


def hash_token(token: str) -> str:
    """Return the hash by which the store knows a token. A plain hash is enough for 256 random bits."""
    from hashlib import sha256

    return sha256(token.encode(errors="surrogatepass")).hexdigest()
