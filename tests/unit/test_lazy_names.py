"""The rooms import their verbs when they are first used, and list them before that."""

from __future__ import annotations

import subprocess
import sys

import pytest

import postroom

LIST_NAMES = (
    "import sys, postroom.{0} as room; names = dir(room); print(sorted(set(room.__all__) - set(names)), 'postroom.store' in sys.modules)"
)


@pytest.mark.parametrize("room", ["work", "mail", "people", "queues"])
def test_a_room_lists_its_verbs_before_it_loads_them(room: str) -> None:
    listed = subprocess.run([sys.executable, "-c", LIST_NAMES.format(room)], capture_output=True, text=True, check=True)
    assert listed.stdout.split() == ["[]", "False"]


@pytest.mark.parametrize("room", ["work", "mail", "people", "queues", "tasks"])
def test_a_room_offers_its_verbs_and_nothing_else(room: str) -> None:
    print_public = f"import postroom.{room} as room; print([n for n in dir(room) if n[0] != '_'] == sorted(room.__all__))"
    listed = subprocess.run([sys.executable, "-c", print_public], capture_output=True, text=True, check=True)
    assert listed.stdout == "True\n"


def test_the_package_offers_its_rooms_and_loads_one_when_it_is_used() -> None:
    script = (
        "import sys, postroom; names = [n for n in dir(postroom) if n[0] != '_'];"
        "print('postroom.work' in sys.modules, postroom.work.claim.__name__, *names)"
    )
    listed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert listed.stdout.split() == ["False", "claim", "connect", "init", "mail", "open", "people", "queues", "tasks", "work"]
    with pytest.raises(AttributeError, match="'wrok'"):
        postroom.wrok  # type: ignore[attr-defined] # noqa: B018


def test_a_name_that_a_room_does_not_have_is_an_attribute_error() -> None:
    from postroom import work

    with pytest.raises(AttributeError, match="'snooze'"):
        work.snooze  # noqa: B018
