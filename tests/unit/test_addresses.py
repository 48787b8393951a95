"""Where an event comes from: read part by part, and refused by the name of the part that is wrong."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.core import addresses
from postroom.core.errors import InvalidInput

LONGEST = 500
EXTERNAL = ("channel_type", "channel_id", "session_type", "session_id", "peer_id")
INTERNAL = ("session_type", "session_id", "agent_id")
PARTS = [("external", EXTERNAL, name) for name in EXTERNAL] + [("internal", INTERNAL, name) for name in INTERNAL]
GOOD = {**dict(zip(EXTERNAL, ("telegram", "tg-main", "dm", "alice", "bob"))), "agent_id": "warden"}
BAD = ["", "Alice", "ALICE", "ÉCOLE", "a b", " a", "a\t", "a\nb", "a\u00a0b", "a\x1b[31m", "\u202ea", "a\x00", "a\x7f", "\u200bx"]
NO_KIND = ["", " ", ":", "self:", "self:x", "Self", " self", "self\n", "selfish", "External:a:b:c:d:e", "extern:a:b:c:d:e", ":dm:default:x"]

# Lower case or without case, printable, no space, no colon; a slash only where one may stand.
letters = st.characters(categories=["Ll", "Lo", "Nd", "Pd", "Pc", "Sc"]).filter(lambda one: one == one.lower() and one.isprintable())
parts = st.text(letters, min_size=1, max_size=20)
nonsense = st.tuples(st.sampled_from(["", "self", "external:", "internal:"]), st.text() | st.text(":/ aA\x00\n\ud800é")).map("".join)
sessions = st.lists(parts, min_size=1, max_size=3).map("/".join)


def _refusal(text: str) -> str:
    """Why an address is refused, with a hint that says what to do."""
    with pytest.raises(InvalidInput) as caught:
        addresses.parse_address(text)
    assert caught.value.hint
    return str(caught.value)


def _with(kind: str, names: tuple[str, ...], name: str, value: str) -> str:
    """An address of which one part is another."""
    return ":".join([kind, *(value if one == name else GOOD[one] for one in names)])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("external:telegram:tg-main:dm:alice:alice", ("telegram", "tg-main", "dm", "alice", "alice")),
        ("external:telegram:tg-main:group:grp-123:bob", ("telegram", "tg-main", "group", "grp-123", "bob")),
        ("external:telegram:tg-main:group:grp-123/topic-456:alice", ("telegram", "tg-main", "group", "grp-123/topic-456", "alice")),
        ("external:slack:slack-work:channel:c1:+491701234567", ("slack", "slack-work", "channel", "c1", "+491701234567")),
    ],
)
def test_the_documents_external_addresses_have_their_parts(text: str, expected: tuple[str, ...]) -> None:
    address = addresses.parse_address(text)
    assert address.kind == "external"
    assert (address.channel_type, address.channel_id, address.session_type, address.session_id, address.peer) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("internal:dm:default:warden", ("dm", "default", "warden")),
        ("internal:dm:health-check-0320:maintainer", ("dm", "health-check-0320", "maintainer")),
        ("internal:dm:a/b/c:warden", ("dm", "a/b/c", "warden")),
    ],
)
def test_the_documents_internal_addresses_have_their_parts(text: str, expected: tuple[str, ...]) -> None:
    address = addresses.parse_address(text)
    assert address.kind == "internal"
    assert (address.session_type, address.session_id, address.peer) == expected
    assert not address.channel_type
    assert not address.channel_id


def test_self_has_no_parts() -> None:
    address = addresses.parse_address("self")
    assert address.kind == "self"
    assert not any((address.channel_type, address.channel_id, address.session_type, address.session_id, address.peer))


@given(st.tuples(parts, parts, parts, sessions, parts))
def test_every_external_address_is_read_as_it_was_put_together(words: tuple[str, ...]) -> None:
    address = addresses.parse_address(":".join(("external", *words)))
    assert (address.channel_type, address.channel_id, address.session_type, address.session_id, address.peer) == words


@given(st.tuples(parts, sessions, parts))
def test_every_internal_address_is_read_as_it_was_put_together(words: tuple[str, ...]) -> None:
    address = addresses.parse_address(":".join(("internal", *words)))
    assert (address.session_type, address.session_id, address.peer) == words


@given(parts, parts, sessions, parts)
def test_addresses_that_differ_are_read_differently(one: str, other: str, session: str, agent: str) -> None:
    first, second = (addresses.parse_address(f"internal:{kind}:{session}:{agent}") for kind in (one, other))
    assert (first == second) == (one == other)


@given(nonsense)
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    try:
        address = addresses.parse_address(text)
    except InvalidInput:
        return
    named = [address.kind, address.channel_type, address.channel_id, address.session_type, address.session_id, address.peer]
    assert ":".join(part for part in named if part) == text
    assert text == text.lower()
    assert text.isprintable()
    assert not re.search(r"\s", text)
    assert len(text) <= LONGEST


@pytest.mark.parametrize(("kind", "names", "name"), PARTS)
@pytest.mark.parametrize("wrong", BAD)
def test_the_part_that_is_wrong_is_named(kind: str, names: tuple[str, ...], name: str, wrong: str) -> None:
    refusal = _refusal(_with(kind, names, name, wrong))
    assert name in refusal
    assert not any(other in refusal for other in {*EXTERNAL, *INTERNAL} - {name}), refusal
    assert refusal.isprintable(), "it repeats what steers a terminal"


@pytest.mark.parametrize(("kind", "names", "name"), [row for row in PARTS if row[2] != "session_id"])
def test_a_slash_stands_in_a_session_and_nowhere_else(kind: str, names: tuple[str, ...], name: str) -> None:
    assert name in _refusal(_with(kind, names, name, "a/b"))
    assert addresses.parse_address(_with(kind, names, "session_id", "a/b")).session_id == "a/b"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("external", "6"),
        ("external:", "6"),
        ("external:telegram:tg-main:dm:alice", "6"),
        ("external:telegram:tg-main:dm:alice:alice:more", "6"),
        ("external:telegram:tg-main:dm:al:ice:alice", "6"),
        ("internal", "4"),
        ("internal:dm:warden", "4"),
        ("internal:dm:default:warden:more", "4"),
        ("internal:telegram:tg-main:dm:alice:alice", "4"),
    ],
)
def test_too_few_or_too_many_parts_are_refused_with_the_number_there_should_be(text: str, count: str) -> None:
    words = {"4": "four", "6": "six"}
    assert re.search(rf"\b({count}|{words[count]})\b", _refusal(text))


@pytest.mark.parametrize("text", NO_KIND)
def test_what_is_none_of_the_three_kinds_is_refused(text: str) -> None:
    assert _refusal(text)


def test_an_address_has_at_most_500_characters() -> None:
    longest = "internal:dm:default:" + "x" * (LONGEST - len("internal:dm:default:"))
    assert addresses.parse_address(longest).peer.endswith("xx")  # type: ignore[union-attr, unused-ignore]
    assert len(_refusal(longest + "x")) < 400, "a refusal does not echo pages"
    assert len(_refusal("external:" + "x" * 1_000_000)) < 400
