"""A file of lines and its recorded position: what is kept, dropped, copied, and noticed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from postroom.core.clock import parse_stamp
from postroom.store.files.jsonl_mirror import JsonlMirror, LockedPositions, make_file_opener

NOW = parse_stamp("2026-03-18T10:30:00.000000Z")
RECORDED = ("inode", "size", "mtime_ns", "last_id")
open_file = make_file_opener("", os.makedirs)


@pytest.fixture
def mirror(tmp_path: Path) -> JsonlMirror:
    return JsonlMirror(str(tmp_path / "made" / "lines.jsonl"), open_file, RECORDED)


def positions(mirror: JsonlMirror) -> LockedPositions:
    return LockedPositions(f"{mirror.path}.positions", (mirror,), open_file, wait_seconds=0)


def append_as_another_program(mirror: JsonlMirror, data: bytes) -> None:
    with open(mirror.path, "ab") as file:
        file.write(data)


def content(mirror: JsonlMirror) -> bytes:
    return Path(mirror.path).read_bytes()


def test_a_saved_position_is_read_again(mirror: JsonlMirror) -> None:
    with positions(mirror) as first:
        assert first.is_new
        mirror.append_lines(b"one\n", 1)
        mirror.last_id = 7
        first.save_positions()
    other = JsonlMirror(mirror.path, open_file, RECORDED)
    with positions(other) as again:
        assert not again.is_new
        assert (other.is_at_position(), other.size, other.last_id) == (True, 4, 7)


def test_positions_that_were_cut_short_are_new(mirror: JsonlMirror) -> None:
    with positions(mirror) as first:
        mirror.append_lines(b"one\n")
        first.save_positions()
    os.truncate(f"{mirror.path}.positions", 31)
    with positions(mirror) as again:
        assert again.is_new
        assert not mirror.is_at_position()


def test_only_one_has_the_positions(mirror: JsonlMirror) -> None:
    with positions(mirror), pytest.raises(BlockingIOError), positions(mirror):
        pass
    with positions(mirror):
        pass


def test_lines_of_another_program_are_noticed_also_when_they_came_before_ours(mirror: JsonlMirror) -> None:
    mirror.append_lines(b"one\n")
    append_as_another_program(mirror, b"theirs\n")
    assert not mirror.is_at_position()
    mirror.append_lines(b"two\n")
    assert not mirror.is_at_position()
    assert content(mirror) == b"one\ntheirs\ntwo\n"


def test_lines_are_kept_up_to_the_first_that_differs(mirror: JsonlMirror) -> None:
    mirror.append_lines(b"one\ntwo\nthr")
    assert mirror.keep_matching_lines([(1, b"one\n"), (2, b"two\n"), (3, b"three\n")], NOW) == ""
    assert content(mirror) == b"one\ntwo\n"
    assert (mirror.lines, mirror.size, mirror.last_id, mirror.is_at_position()) == (2, 8, 2, True)


@pytest.mark.parametrize("more", [b"2\n", b"two\nthree\n", b"two\nhalf", b"tw\ntwo\n"])
def test_a_file_with_lines_that_no_row_has_is_set_aside_whole(mirror: JsonlMirror, more: bytes) -> None:
    for number in (1, 2):
        mirror.append_lines(b"one\n" + more)
        aside = mirror.keep_matching_lines([(1, b"one\n"), (2, b"two\n")], NOW)
        ordinal = "-2" if number == 2 else ""
        assert aside == f"lines-set-aside-20260318-103000{ordinal}.jsonl"
        assert (Path(mirror.path).parent / aside).read_bytes() == b"one\n" + more
        assert (content(mirror), mirror.lines, mirror.size, mirror.last_id, mirror.is_at_position()) == (b"", 0, 0, 0, True)
    assert mirror.rotated_paths() == []


def without_one(lines: Iterator[bytes]) -> Iterable[bytes]:
    return [line for line in lines if line != b"one\n"]


@pytest.mark.parametrize(("is_torn", "left"), [(False, b"two\nthr"), (True, b"two\nthr\n")])
def test_a_rewrite_ends_a_torn_line_and_no_other(mirror: JsonlMirror, is_torn: bool, left: bytes) -> None:
    mirror.append_lines(b"one\ntwo\nthr")
    mirror.rewrite_lines(without_one, is_torn=is_torn)
    assert content(mirror) == left
    assert mirror.is_at_position() is is_torn  # a line that is still being written is beyond the position


def test_a_line_that_is_ended_while_the_file_is_rewritten_stays_whole(mirror: JsonlMirror) -> None:
    mirror.append_lines(b"one\ntwo\nthr")

    def edit(lines: Iterator[bytes]) -> Iterator[bytes]:
        yield from without_one(lines)
        append_as_another_program(mirror, b"ee\nfour\n")

    mirror.rewrite_lines(edit, is_torn=False)
    assert content(mirror) == b"two\nthree\nfour\n"
    assert mirror.size == len(b"two\n")


def test_a_count_ends_a_torn_line(mirror: JsonlMirror) -> None:
    mirror.append_lines(b"one\ntwo\nthr")
    mirror.reset_position()
    mirror.recount_lines()
    assert (mirror.lines, content(mirror), mirror.is_at_position()) == (3, b"one\ntwo\nthr\n", True)


def test_rotated_files_are_found_oldest_first_and_rows_go_on(mirror: JsonlMirror) -> None:
    for number in range(12):
        mirror.append_lines(f"{number}\n".encode(), 1)
        mirror.last_id = number + 1
        mirror.rotate_file(0)
    Path(mirror.path).with_name("lines-of-another.jsonl").write_bytes(b"")
    assert [Path(path).read_text() for path in mirror.rotated_paths()] == [f"{number}\n" for number in range(12)]
    assert (content(mirror), mirror.first_id, mirror.lines, mirror.is_at_position()) == (b"", 13, 0, True)
