"""`inbox demo` tells a true story."""

from __future__ import annotations

from tests.cli.process import Inbox


def test_the_demonstration_ends_by_itself_with_everything_done(bare: Inbox) -> None:
    (bare.folder / "types.py").write_text("raise SystemExit('a file of the current folder was run')")
    finished = bare.run("demo", "--db", "demo/coord.db", "--json")
    assert finished.code == 0, finished
    threads = finished.json["threads"]
    assert {thread["status"] for thread in threads} == {"done"}
    assert len(threads) == 3
    assert {thread["assigned_to"] for thread in threads} == {"ada"}, "bo's thread was taken over"
    for told in ("blocked, asks", "replied", "Awake", "kill -9 of bo", "refused with exit 20"):
        assert told in finished.stderr
    assert finished.stderr.index("kill -9") < finished.stderr.index("refused with exit 20")


def test_the_demonstration_leaves_an_existing_store_alone(inbox: Inbox) -> None:
    inbox.send()
    before = inbox.everything()
    assert inbox.run("demo", "--db", str(inbox.db), "--json").error[:2] == (30, "invalid_input")
    assert inbox.everything() == before
