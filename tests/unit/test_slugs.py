"""The part of a task's id that stands for a queue's path."""

from __future__ import annotations

from hashlib import sha1

import pytest

from postroom.queues.notifier import dispatch_task_id, path_slug


def test_the_documents_own_example() -> None:
    assert path_slug("/home/user/my-project/thread") == "home-user-my-project-thread"
    assert dispatch_task_id("/home/user/my-project/thread") == "dispatch-home-user-my-project-thread"


@pytest.mark.parametrize(("length", "whole"), [(1, True), (40, True), (41, False), (400, False)])
def test_up_to_forty_characters_it_is_whole_and_beyond_it_is_cut_and_hashed(length: int, whole: bool) -> None:
    path = "/" + "x" * length
    assert path_slug(path) == ("x" * length if whole else f"{'x' * 32}-{sha1(path.encode()).hexdigest()[:6]}")


def test_what_is_no_letter_or_digit_of_ascii_is_a_hyphen() -> None:
    assert path_slug("/a b/ü_c.d") == "a-b---c-d"
