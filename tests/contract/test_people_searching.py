"""Search: every word, in every field, however it is spelled; and no sign in it is anything but a sign."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from postroom import people
from postroom.core.errors import InvalidInput, Refusal
from postroom.people import searching
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.people_data import USER, asked, field, found, id_of, ids, new_workspace, pushed, seeded, surfaced


@pytest.fixture
def desk(store: Store, tmp_path: Path) -> str:
    """A workspace, and in it an entry that no search here is for."""
    desk = new_workspace(store, tmp_path, label="Macro thesis")
    pushed(store, desk, "something else entirely")
    return desk


BEGINNINGS = ["rates", "RATES", "rat", "r", "fomc rates", "rates fomc", "FOMC  piece\n", "Draft", "drafted the fomc piece on rates"]
NOT_SO = ["ates", "raters", "rates inflation", "fomc, please"]


def test_words_and_their_beginnings_are_found_in_any_order(store: Store, desk: str) -> None:
    entry_id = pushed(store, desk, "Drafted the FOMC piece on rates.")
    assert {q: found(store, q) for q in BEGINNINGS} == {q: [entry_id] for q in BEGINNINGS}


def test_what_is_only_inside_a_word_or_lacks_one_is_not_found(store: Store, desk: str) -> None:
    pushed(store, desk, "Drafted the FOMC piece on rates.")
    assert {q: found(store, q) for q in NOT_SO} == {q: [] for q in NOT_SO}
    assert not people.search(store, NOT_SO[0]).has_more


SPELLINGS = {
    "an accent": ("Un café crème", ["cafe", "CAFÉ", "café", "cafe\u0301", "creme", "caf crè"]),
    "no accent": ("A cafe somewhere", ["café", "Cafe\u0301"]),
    "composed of two": ("Cafe\u0301 noir", ["café", "cafe", "CAF"]),
    "an umlaut": ("Zürich über alles", ["zurich", "ZÜRICH", "uber zür"]),
    "Vietnamese": ("Phở ở Hà Nội", ["pho", "ha noi", "PHỞ"]),
    "Cyrillic": ("Отчёт готов", ["отчёт", "ОТЧЁТ", "готов"]),
    "Greek": ("Έκθεση έτοιμη", ["έκθεση", "εκθεση"]),
    "Japanese": ("日本語の報告書", ["日本", "日本語の報告書"]),
    "Chinese": ("完成 分析报告", ["分析", "完成", "完成 分析"]),
    "Korean": ("보고서 완료", ["보고서", "완료"]),
    "Arabic": ("التقرير جاهز", ["التقرير", "جاهز"]),
    "numbers": ("~$197 (~$188) in 2026-05-14", ["197", "188 197", "2026", "2026-05-14", "$197"]),
    "code": ("call snake_case() and kebab-case, path/to/file.py", ["snake_case", "kebab-case", "path/to", "file.py", "file"]),
    "an address": ("write to ada@example.org", ["ada@example.org", "example"]),
}


def test_case_and_accents_do_not_matter_in_any_script(store: Store, desk: str) -> None:
    for text, queries in SPELLINGS.values():
        entry_id = pushed(store, desk, text)
        assert {q: found(store, q) for q in queries} == {q: [entry_id] for q in queries}
        people.delete_entry(store, entry_id, person=USER)


def test_every_field_is_searched(store: Store, tmp_path: Path, desk: str) -> None:
    (tmp_path / "macro" / "research").mkdir()
    (tmp_path / "macro" / "research" / "inflation-2026.md").write_text("")
    by_path = pushed(store, desk, None, docs=["research/inflation-2026.md"])
    by_label = pushed(store, new_workspace(store, tmp_path, "micro", label="Zebra desk"), "Hello")
    by_question = asked(store, "Ship the quokka?")
    by_choice = asked(store, "Which?", choices=["aardvark", "badger"])
    _, by_thread = surfaced(store, "Paint the walrus?", body="All of the tusks")
    by_notice = id_of(people.notify(store, sender="cron", text="Backed up the lemur"))
    wanted = {
        "inflation": by_path,
        "research 2026": by_path,
        "zebra": by_label,
        "quokka": by_question,
        "badger": by_choice,
        "walrus tusks": by_thread,
        "lemur": by_notice,
        "zebra hello": by_label,
    }
    assert {q: found(store, q) for q in wanted} == {q: [entry_id] for q, entry_id in wanted.items()}


def test_replies_are_searched_too(store: Store, desk: str) -> None:
    entry_id, question = pushed(store, desk, "First draft"), asked(store, "Ship it?")
    assert found(store, "narwhal") == []
    people.reply(store, entry_id, person=USER, body="Mention the narwhal")
    people.reply(store, entry_id, person=USER, body="And the okapi")
    people.reply(store, question, person=USER, body="Not without the narwhal")
    assert found(store, "narwhal") == [question, entry_id]
    assert found(store, "narwhal okapi draft") == [entry_id]
    people.delete_entry(store, entry_id, person=USER)
    assert found(store, "narwhal") == [question]
    assert found(store, "okapi") == []


SIGNS = [
    '"',
    "'",
    "*",
    "-",
    "(",
    ")",
    ":",
    "^",
    "+",
    "~",
    "&",
    "|",
    "!",
    "<->",
    "\\",
    "%",
    ";",
    "{",
    "}",
    "[",
    "]",
    "/",
    ",",
    ".",
    "?",
    "=",
    "@",
    "#",
]
SIGNS += ['""', '" "', ":*", "--", "/*", "$$", "\u201c", "\u2028", "\t", "🎉"]


def test_no_sign_means_anything(store: Store, desk: str) -> None:
    entry_id = pushed(store, desk, "alpha beta")
    for sign in SIGNS:
        for q in (f"{sign}alpha", f"alpha{sign}", f"{sign} alpha {sign} beta", f"alpha{sign} beta{sign}", f"{sign}{sign}alpha"):
            assert found(store, q) == [entry_id], q


def test_no_word_is_an_operator(store: Store, desk: str) -> None:
    entry_id = pushed(store, desk, "alpha beta")
    for word in ("OR", "AND", "NOT", "NEAR", "NEAR(", "or", "column:", "comments:", "TO_TSQUERY", "NULL"):
        spelled = pushed(store, desk, f"alpha beta {word}")
        assert found(store, f"alpha {word} beta") == found(store, f"{word} alpha") == [spelled], word
        assert found(store, "alpha beta") == [spelled, entry_id]
        people.delete_entry(store, spelled, person=USER)


def test_a_search_without_a_word_is_refused(store: Store, desk: str) -> None:
    for q in ("", "   ", "\n\t", '"', "*", "***", "- ( ) :", '"" ""', "%", "...", "--"):
        with pytest.raises(InvalidInput) as refused:
            people.search(store, q)
        assert field(refused.value) == "q"


def test_whatever_is_searched_for_nothing_escapes(store: Store, desk: str) -> None:
    for q in ("a\0b", "\ud800", "x" * 100_000, "word " * 10_000, "\x1b[31mred", "a" * 5000 + " b"):
        with suppress(Refusal):
            assert people.search(store, q).entries == ()
    assert len(ids(store)) == 1


def test_results_are_newest_first_and_bounded(store: Store, clock: Clock) -> None:
    several: list[str] = []
    for number in range(5):
        clock.advance(number % 2)
        several.insert(0, seeded(store, f"apple {number}"))
    several.insert(0, seeded(store, "apple of old", ts=1000))  # by arrival: sorting by time would cost more, the more is found
    assert found(store, "apple") == several
    assert found(store, "apple", limit=2) == several[:2]
    assert people.search(store, "apple", limit=2).has_more
    assert people.search(store, "apple", limit=5).has_more
    assert not people.search(store, "apple", limit=6).has_more
    assert set(people.search(store, "apple", limit=6).entries) == set(people.history(store).entries)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_search_for_no_sensible_number_is_refused(store: Store, limit: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        people.search(store, "apple", limit=limit)
    assert field(refused.value) == "limit"


def test_a_search_finds_fifty_unless_it_is_said(store: Store) -> None:
    for number in range(51):
        seeded(store, f"apple {number}")
    page = people.search(store, "apple")
    assert (len(page.entries), page.has_more) == (50, True)


def test_the_store_is_unharmed_by_what_is_searched_for(store: Store, desk: str) -> None:
    before = ids(store)
    for q in ("'; DROP TABLE entries; --", '" OR 1=1 --', "x'); DELETE FROM entries;"):
        people.search(store, q)
    assert ids(store) == before


@pytest.mark.parametrize("most", [500, 0], ids=["few", "many"])
def test_words_are_found_among_the_unread_open_and_pinned_however_many_there_are(
    store: Store, desk: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "MAX_COMPARED_ENTRIES", most)
    read, unread, other = (pushed(store, desk, text) for text in ("Café rates", "The café rates", "The cafeteria"))
    people.mark_read(store, read, person=USER)
    question = asked(store, "Which café?")
    people.pin_entry(store, read, person=USER, pinned=True)
    pages = {q: found(store, q) for q in ("cafe is:unread", "cafe rat is:unread", "cafe is:open", "cafe is:pinned", "afe is:unread")}
    assert pages == {
        "cafe is:unread": [question, other, unread],
        "cafe rat is:unread": [unread],
        "cafe is:open": [question],
        "cafe is:pinned": [read],
        "afe is:unread": [],
    }
    first = people.search(store, "cafe is:unread", limit=2)
    assert ([id_of(entry) for entry in first.entries], first.has_more) == ([question, other], True)
    rest = people.search(store, "cafe is:unread", limit=2, before=other)
    assert ([id_of(entry) for entry in rest.entries], rest.has_more) == ([unread], False)
    assert found(store, "cafe is:unread from:nobody") == []
