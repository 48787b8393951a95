"""The hint for a missing extra names the source of this copy, never a bare name that an index might give to somebody else."""

from __future__ import annotations

import pytest

from postroom.store.installation import missing_extra, requirement


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ('{"url": "file:///srv/post%20room", "dir_info": {"editable": true}}', "/srv/post room[server]"),
        ('{"url": "file:///tmp/postroom-0.2.0-py3-none-any.whl"}', "/tmp/postroom-0.2.0-py3-none-any.whl[server]"),
        ('{"url": "https://git.example/postroom", "vcs_info": {"vcs": "git"}}', "postroom[server] @ git+https://git.example/postroom"),
    ],
)
def test_each_source_has_its_requirement(record: str, expected: str) -> None:
    assert requirement(record, "server") == expected


def test_the_hint_for_this_copy_names_the_folder_of_the_sources() -> None:
    refusal = missing_extra("the server needs more libraries", "server")
    assert "[server]'" in refusal.hint
    assert " 'postroom[" not in refusal.hint
