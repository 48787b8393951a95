"""Secrets: made here, shown once, and kept as hashes alone."""

from __future__ import annotations

from os import urandom


def fresh(prefix: str) -> str:
    """256 bits of chance, safe in a URL and a header."""
    return f"{prefix}_{urandom(32).hex()}"


def hashed(token: str) -> str:
    """What the store knows of a token. A plain hash will do: nobody guesses 256 bits."""
    from hashlib import sha256

    return sha256(token.encode(errors="surrogatepass")).hexdigest()
