"""The locations of servers: one address, or several of one store."""

from __future__ import annotations

import pytest

from postroom.core.errors import InvalidInput
from postroom.store.remote.engine import RemoteStore
from postroom.store.remote.transport import parse_addresses


@pytest.mark.parametrize(
    ("location", "urls"),
    [
        ("http://one:8420", ["http://one:8420"]),
        ("https://one,https://two:8443", ["https://one", "https://two:8443"]),
        ("unix:/run/a,b.sock,ws://127.0.0.1:1", ["unix:/run/a,b.sock", "ws://127.0.0.1:1"]),
    ],
)
def test_a_location_names_one_server_or_several(location: str, urls: list[str]) -> None:
    assert [address.url for address in parse_addresses(location)] == urls


@pytest.mark.parametrize(
    "location", ["http://one,", "http://one,two", "http://one,ftp://two", "http://one,http://", "http://one, http://two"]
)
def test_an_address_that_is_none_is_refused_wherever_it_stands(location: str) -> None:
    with pytest.raises(InvalidInput, match="is not the address of a server"):
        parse_addresses(location)


def test_a_token_is_sent_to_no_server_of_the_list_without_encryption() -> None:
    with pytest.raises(InvalidInput, match=r"far\.example is another machine"):
        RemoteStore("https://near.example,http://far.example", token="secret")
