"""Bad input to the people's commands: each refusal names the field, says what to do, and changes nothing."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.cli.people_workspace import AGENT, FORGED, HARMFUL, NOWHERE, PeopleWorkspace
from tests.cli.process import Inbox

HUGE = "1" + "0" * 400
KIB = 1024
PUSHED, ASKED, WORKSPACE = "{pushed}", "{asked}", "{workspace}"  # ids of the scene, where argv is known before them
ADD = ("workspace", "add", "empty")
PUSH = ("push", "--agent", AGENT)
ASK = ("ask", "--from", "builder", "--no-wait")
SHIP = (*ASK, "--question", "Ship it?")
LATE = (*SHIP, "--deadline-seconds", "60", "--on-silence")
REPLY = ("entry", "reply", PUSHED)
TEXTS = [(PUSH, "comments"), (("notify", "--from", "backup"), "text"), (ASK, "question"), (REPLY, "body")]
LINES = [
    ((*ADD, "--agent", "other"), "label"),
    ((*ADD, "--label", "x"), "agent"),
    (PUSH, "doc"),
    (("push", "--comments", "x"), "workspace"),
    (("push", "--comments", "x"), "agent"),
    (("notify", "--text", "x"), "from"),
    (("ask", "--question", "x", "--no-wait"), "from"),
    (SHIP, "to"),
    ((*SHIP, "--choice", "fine"), "choice"),
    ((*LATE, "escalate"), "escalate-to"),
    (("ask",), "entry"),
    (("entries",), "before"),
    (("entries",), "workspace"),
    ((*REPLY, "--body", "x"), "agent"),
    (("entry", "read", PUSHED), "agent"),
    (("entry", "delete", PUSHED), "agent"),
    (("sign-in",), "person"),
    (("mcp",), "workspace"),
]
NO_LINES = ["two\nlines", "\x1b[31mred", "bell\x07", "\u202eright", "a\u2028b", " outer ", "x" * 5000]


class SharedEntries:
    """A workspace with an entry and a question; refusals leave it as it is, so one serves every test."""

    def __init__(self, folder: Path) -> None:
        self.desk = PeopleWorkspace(Inbox(folder))
        (folder / "empty").mkdir()
        (folder / "note.md").write_text("x")
        self.ids = {PUSHED: self.desk.push(), ASKED: self.desk.ask(), WORKSPACE: self.desk.workspace_id}

    def argv(self, argv: tuple[str | bytes, ...]) -> list[str | bytes]:
        return [self.ids.get(word, word) if isinstance(word, str) else word for word in argv]

    def refusal(self, *argv: str | bytes, stdin: bytes = b"", **environment: str) -> dict[str, Any]:
        return self.desk.refusal(*self.argv(argv), stdin=stdin, **environment)

    def invalid(self, *argv: str | bytes, field: str, stdin: bytes = b"") -> dict[str, Any]:
        return self.desk.invalid(*self.argv(argv), field=field.replace("-", "_"), stdin=stdin)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> SharedEntries:
    return SharedEntries(tmp_path_factory.mktemp("scene"))


# what is missing


@pytest.mark.parametrize(
    ("argv", "field"),
    [
        ((*ADD, "--label", ""), "label"),
        ((*ADD, "--label", " \t"), "label"),
        ((*ADD, "--label", "x", "--agent", ""), "agent"),
        (("push", "--comments", "x"), "agent"),
        (("push", "--agent", "", "--comments", "x"), "agent"),
        (PUSH, "doc"),
        ((*PUSH, "--comments", " \n"), "doc"),
        ((*PUSH, "--doc", ""), "doc"),
        (("notify", "--text", "x"), "from"),
        (("notify", "--from", "", "--text", "x"), "from"),
        (("notify", "--from", "backup"), "text"),
        (("notify", "--from", "backup", "--text", " \n"), "text"),
        (("ask", "--question", "x"), "from"),
        (ASK, "question"),
        ((*ASK, "--question", "\n "), "question"),
        ((*SHIP, "--choice", "", "--choice", "x"), "choice"),
        ((*LATE, "default"), "default"),
        ((*LATE, "escalate"), "escalate_to"),
        ((*SHIP, "--on-silence", "refuse"), "deadline_seconds"),
        ((*SHIP, "--on-silence", "default", "--default", "x"), "deadline_seconds"),
        ((*SHIP, "--on-silence", "escalate", "--escalate-to", "maria"), "deadline_seconds"),
        (REPLY, "body"),
        ((*REPLY, "--body", " \n"), "body"),
        (("serve", "--port", "0", "--tls-cert", "note.md"), "tls_cert"),
    ],
)
def test_what_is_missing_is_named(scene: SharedEntries, argv: tuple[str, ...], field: str) -> None:
    assert scene.invalid(*argv, field=field)["hint"]


@pytest.mark.parametrize("argv", [("workspace", verb) for verb in ("add", "show", "remove", "token")], ids=" ".join)
def test_a_workspace_has_to_be_named(scene: SharedEntries, argv: tuple[str, ...]) -> None:
    error = scene.refusal(*argv)
    assert (error["exit"], error["code"]) == (30, "invalid_input")
    assert f"inbox {' '.join(argv)}" in error["hint"]


@pytest.mark.parametrize("verb", ["show", "reply", "read", "unread", "delete"])
def test_an_entry_has_to_be_named(scene: SharedEntries, verb: str) -> None:
    for argv in (("entry", verb), ("entry", verb, "")):
        assert scene.refusal(*argv, *(("--body", "x") if verb == "reply" else ()))["exit"] == 30, argv


@pytest.mark.parametrize("argv", [(*REPLY, "--body", "x"), ("entry", "read", PUSHED), ("entry", "delete", PUSHED)], ids=" ".join)
def test_an_empty_person_is_not_taken_for_the_default(argv: tuple[str, ...], tmp_path: Path) -> None:
    """As for every other command: see test_flags.py."""
    assert SharedEntries(tmp_path).refusal(*argv, "--agent", "")["exit"] == 30


# what is not there


@pytest.mark.parametrize(
    "argv",
    [
        ("workspace", "show", "ws_nowhere"),
        ("workspace", "remove", "ws_nowhere"),
        ("workspace", "token", "ws_nowhere"),
        ("push", "--workspace", "ws_nowhere", "--comments", "x"),
        ("push", "--agent", "nobody", "--comments", "x"),
        (*PUSH, "--doc", "missing.md"),
        (*PUSH, "--doc", "report.md", "--doc", "missing.md", "--comments", "x"),
        ("mcp", "--workspace", "ws_nowhere"),
        ("ask", "--entry", NOWHERE),
        ("entries", "--before", NOWHERE),
        ("entry", "show", NOWHERE),
        ("entry", "reply", NOWHERE, "--body", "x"),
        ("entry", "read", NOWHERE),
        ("entry", "unread", NOWHERE),
        ("entry", "delete", NOWHERE),
        ("entry", "show", "5f0e"),
    ],
    ids=" ".join,
)
def test_what_was_never_there_is_not_found(scene: SharedEntries, argv: tuple[str, ...]) -> None:
    error = scene.refusal(*argv)
    assert (error["exit"], error["code"]) == (40, "not_found")
    assert error["hint"]
    assert any(word in error["message"] for word in argv[1:] if not word.startswith("-"))


def test_waiting_for_what_is_no_question_is_refused(scene: SharedEntries) -> None:
    error = scene.refusal("ask", "--entry", PUSHED, "--timeout-seconds", "5")
    assert error["exit"] in (30, 40)
    assert error["hint"]


def test_a_store_that_is_not_there_is_said_so_and_not_made(bare: Inbox) -> None:
    for argv in (
        (*ADD, "--label", "x"),
        ("workspace", "list"),
        ("push", "--agent", AGENT, "--comments", "x"),
        ("notify", "--from", "backup", "--text", "x"),
        SHIP,
        ("entries",),
        ("entry", "show", NOWHERE),
        ("sign-in",),
        ("mcp", "--workspace", "ws_nowhere"),
        ("serve", "--port", "0"),
    ):
        assert bare.run(*argv, "--json").error[:2] == (40, "no_store"), argv
    assert list(bare.folder.iterdir()) == []


# workspaces


def test_a_path_that_is_no_folder_is_refused(scene: SharedEntries) -> None:
    for path in ("nowhere", "note.md", f"{AGENT}/report.md"):
        error = scene.invalid("workspace", "add", path, "--label", "x", field="path")
        assert path in error["message"]


@pytest.mark.parametrize("path", ["two\nlines", "\x1b[31m", b"\xff\xfe", "x" * 5000, ""])
def test_a_path_that_could_be_no_folder_is_refused_like_any_other(scene: SharedEntries, path: str | bytes) -> None:
    assert scene.refusal("workspace", "add", path, "--label", "x", "--agent", "other")["exit"] == 30


@pytest.mark.parametrize(
    "argv",
    [("workspace", "add", AGENT, "--label", "x", "--agent", "other"), (*ADD, "--label", "x", "--agent", AGENT)],
    ids=["path", "agent"],
)
def test_a_path_or_an_agent_that_another_workspace_has_is_taken(scene: SharedEntries, argv: tuple[str, ...]) -> None:
    error = scene.refusal(*argv)
    assert (error["exit"], error["code"], error["workspace_id"]) == (20, "taken", scene.desk.workspace_id)
    assert error["hint"]


@pytest.mark.parametrize("person", ["user", "maria"])
def test_a_person_is_no_workspaces_agent(scene: SharedEntries, person: str) -> None:
    error = scene.invalid(*ADD, "--label", "x", "--agent", person, field="agent")
    assert person in error["message"]
    assert "--agent" in error["hint"]


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1", "http://", "javascript:alert(1)", "http://a b", "http://x\ny"])
def test_a_url_that_no_server_has_is_refused(scene: SharedEntries, url: str) -> None:
    for argv in (("workspace", "show", WORKSPACE), ("sign-in",), (*ADD, "--label", "x")):
        scene.invalid(*argv, "--url", url, field="url")


# texts and lines


@pytest.mark.parametrize(("argv", "flag"), TEXTS, ids=[flag for _, flag in TEXTS])
@pytest.mark.parametrize("text", [b"before\0after", b"\xff\xfe", b"\xed\xa0\x80", b"", b"x" * (256 * KIB + 1), b"x" * 10 * KIB * KIB])
def test_a_text_that_is_none_or_too_long_is_refused(scene: SharedEntries, argv: tuple[str, ...], flag: str, text: bytes) -> None:
    field = "doc" if (flag, text) == ("comments", b"") else flag
    scene.invalid(*argv, f"--{flag}-file", "-", stdin=text, field=field)


def test_a_question_is_at_most_16_kib(scene: SharedEntries) -> None:
    scene.invalid(*ASK, "--question-file", "-", stdin=("é" * (8 * KIB) + "x").encode(), field="question")


@pytest.mark.parametrize(("argv", "flag"), TEXTS, ids=[flag for _, flag in TEXTS])
def test_a_text_comes_from_one_place_that_can_be_read(scene: SharedEntries, argv: tuple[str, ...], flag: str) -> None:
    scene.invalid(*argv, f"--{flag}", "x", f"--{flag}-file", "note.md", field=flag)
    for path in ("missing.md", ".", "two\nlines"):
        scene.invalid(*argv, f"--{flag}-file", path, field=flag)


@pytest.mark.parametrize(("argv", "flag"), LINES, ids=[f"{argv[0]} {flag}" for argv, flag in LINES])
def test_a_name_or_id_that_could_mislead_is_refused(scene: SharedEntries, argv: tuple[str, ...], flag: str) -> None:
    for value in NO_LINES:
        error = scene.refusal(*argv, f"--{flag}={value}")
        assert (error["exit"], error["code"]) in ((30, "invalid_input"), (40, "not_found")), (value, error)


@pytest.mark.parametrize(("argv", "flag"), LINES, ids=[f"{argv[0]} {flag}" for argv, flag in LINES])
def test_a_name_or_id_that_is_not_utf8_is_refused(scene: SharedEntries, argv: tuple[str, ...], flag: str) -> None:
    error = scene.invalid(*argv, f"--{flag}=".encode() + b"\xff\xfe", field=flag)
    assert "UTF-8" in error["message"]


@pytest.mark.parametrize("verb", ["show", "read", "unread", "delete"])
def test_an_id_that_could_mislead_is_refused(scene: SharedEntries, verb: str) -> None:
    values: list[str | bytes] = [*NO_LINES, b"\xff"]
    for value in values:
        assert scene.refusal("entry", verb, value)["exit"] in (30, 40), value
        if verb == "show":
            assert scene.refusal("workspace", verb, value)["exit"] in (30, 40), value


# documents


@pytest.mark.parametrize(
    "path", ["../note.md", "/etc/hostname", "./../note.md", "a/../../note.md", "..", ".", "/", "\x1b[31m", "a\nb", "x" * 1025]
)
def test_a_path_outside_the_workspace_or_malformed_is_refused(scene: SharedEntries, path: str) -> None:
    scene.invalid(*PUSH, "--comments", "x", "--doc", path, field="doc")


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    fresh = SharedEntries(tmp_path)
    folder = fresh.desk.path
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(folder, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{here}/socket")  # the path of a socket is short
        for path in ("pipe", "folder", "socket"):
            fresh.invalid(*PUSH, "--doc", path, field="doc")
        os.close(here)


def test_there_are_at_most_50_documents(tmp_path: Path) -> None:
    fresh = SharedEntries(tmp_path)
    names = [f"{number}.md" for number in range(51)]
    for name in names:
        (fresh.desk.path / name).write_text(name)
    flags = [word for name in names for word in ("--doc", name)]
    assert "50" in fresh.invalid(*PUSH, *flags, field="doc")["message"]
    assert len(fresh.desk.inbox.ok(*PUSH, *flags[2:])["entry"]["docs"]) == 50


# questions


@pytest.mark.parametrize("choices", [["one"], [str(number) for number in range(21)], ["yes", "no", "yes"], ["x", "y" * 201]])
def test_choices_are_2_to_20_different_lines(scene: SharedEntries, choices: list[str]) -> None:
    error = scene.invalid(*SHIP, *(word for choice in choices for word in ("--choice", choice)), field="choice")
    assert "20" in error["message"]


@pytest.mark.parametrize(
    ("argv", "field"),
    [
        ((*LATE, "default", "--default", "perhaps", "--choice", "yes", "--choice", "no"), "default"),
        ((*LATE, "refuse", "--default", "no"), "default"),
        ((*SHIP, "--default", "no"), "default"),
        ((*LATE, "default", "--default", "no", "--escalate-to", "maria"), "escalate_to"),
        ((*SHIP, "--escalate-to", "maria"), "escalate_to"),
        ((*LATE, "escalate", "--escalate-to", "nobody"), "escalate_to"),
        ((*LATE, "escalate", "--escalate-to", AGENT), "escalate_to"),
        ((*LATE, "escalate", "--escalate-to", "user"), "escalate_to"),
        ((*LATE, "escalate", "--escalate-to", "maria", "--to", "maria"), "escalate_to"),
        ((*LATE, "forget"), "on_silence"),
        ((*LATE, ""), "on_silence"),
        ((*SHIP, "--to", "nobody"), "to"),
        ((*SHIP, "--to", AGENT), "to"),
        (("ask", "--entry", ASKED, "--question", "Why?"), "entry"),
        (("ask", "--entry", ASKED, "--choice", "yes", "--choice", "no"), "entry"),
        (("ask", "--entry", ASKED, "--to", "maria"), "entry"),
        (("ask", "--entry", ASKED, "--deadline-seconds", "60"), "entry"),
    ],
)
def test_a_question_that_contradicts_itself_is_refused(scene: SharedEntries, argv: tuple[str, ...], field: str) -> None:
    bound = () if "--no-wait" in argv else ("--timeout-seconds", "0.05")
    assert scene.invalid(*argv, *bound, field=field)["hint"]


def test_a_question_that_is_already_asked_is_no_other_agents_to_wait_for(scene: SharedEntries) -> None:
    error = scene.refusal("ask", "--entry", ASKED, "--from", "mallory", "--timeout-seconds", "0.05")
    assert (error["exit"], error["code"]) == (40, "not_found")


@pytest.mark.parametrize(
    ("argv", "flag", "values"),
    [
        (SHIP, "deadline-seconds", ("0", "-1", "nan", "inf", HUGE)),
        (("ask", "--entry", ASKED), "timeout-seconds", ("-1", "nan", HUGE)),
        (("entries",), "limit", ("0", "-1", "501", "1.5", HUGE)),
        (("entries",), "search", ("", "  ", ".", "!?")),
        (("serve",), "port", ("-1", "65536", "1.5", HUGE)),
        (("serve", "--port", "0"), "rate", ("0", "-1", "x", "nan")),
        (("serve", "--port", "0"), "max-listeners", ("-1", "x")),
        (("serve", "--port", "0"), "max-waits", ("-1", "x")),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_value_out_of_range_is_refused(scene: SharedEntries, argv: tuple[str, ...], flag: str, values: tuple[str, ...]) -> None:
    for value in values:
        scene.invalid(*argv, f"--{flag}={value}", field=flag)


def test_a_huge_search_is_refused_or_finds_nothing(scene: SharedEntries) -> None:
    for words in ("x" * 100_000, "x " * 50_000, '"' * 1000 + "a", "a* OR b", "NEAR(a b)", "-a", "a:b"):
        finished = scene.desk.inbox.run("entries", f"--search={words}", "--json")
        assert finished.code == 30 or (finished.code, finished.json["entries"]) == (0, []), (words[:20], finished)


# people


@pytest.mark.parametrize("person", ["nobody", AGENT, "builder"])
def test_nobody_but_a_person_is_signed_in(scene: SharedEntries, person: str) -> None:
    assert person in scene.invalid("sign-in", "--person", person, field="person")["message"]
    assert person in scene.invalid("serve", "--port", "0", "--person", person, field="person")["message"]


@pytest.mark.parametrize("person", ["nobody", AGENT, "builder"])
@pytest.mark.parametrize(
    "argv", [(*REPLY, "--body", "x"), ("entry", "reply", ASKED, "--body", "yes"), ("entry", "delete", PUSHED)], ids=" ".join
)
def test_nobody_but_a_person_replies_or_deletes_as_a_person(argv: tuple[str, ...], person: str, tmp_path: Path) -> None:
    """An agent whose environment names it must not answer its own question."""
    assert SharedEntries(tmp_path).refusal(*argv, INBOX_AGENT=person)["exit"] == 30


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        (("--host", "0.0.0.0"), "host"),
        (("--host", "0.0.0.0", "--behind-proxy", "--dev"), "dev"),
        (("--tls-key", "note.md"), "tls_key"),
        (("--tls-cert", "missing.pem", "--tls-key", "missing.pem"), "tls_cert"),
        (("--tls-cert", "note.md", "--tls-key", "note.md"), "tls_cert"),
        (("--host", "nowhere.invalid", "--behind-proxy"), "host"),
        (("--data", "note.md"), "data"),
    ],
)
def test_a_server_that_could_not_be_safe_or_run_is_refused(scene: SharedEntries, flags: tuple[str, ...], field: str) -> None:
    error = scene.refusal("serve", "--port", "0", *flags)
    assert error["exit"] == 30, error
    assert error["field"].replace("-", "_") in (field, "tls_cert" if field == "tls_key" else field)
    assert error["hint"]


# for people


@pytest.mark.parametrize(
    "argv",
    [
        ("entry", "show", f"x\n{FORGED}\x1b[2J"),
        ("workspace", "show", f"x\n{FORGED}\x1b[2J"),
        ("workspace", "add", f"x\n{FORGED}\x1b[2J", "--label", "x"),
        (*PUSH, "--doc", f"x\n{FORGED}\x1b[2J"),
        (*SHIP, "--to", "\u202enobody"),
        ("entries", "--limit", "\x1b[2J"),
        ("notify", "--from", "backup"),
    ],
    ids=lambda argv: " ".join(argv[:2]),
)
def test_a_refusal_tells_people_the_same_on_harmless_lines(scene: SharedEntries, argv: tuple[str, ...]) -> None:
    spoken, written = scene.desk.inbox.run(*argv), scene.refusal(*argv)
    assert (spoken.code, spoken.stdout) == (written["exit"], "")
    assert spoken.stderr.startswith("error: ")
    assert not HARMFUL & set(spoken.stderr)
    assert all(line.startswith(("error: ", "hint: ")) for line in spoken.stderr.splitlines())


@pytest.mark.parametrize(
    "argv", [(*SHIP, "--to"), (*LATE, "escalate", "--escalate-to"), ("sign-in", "--person")], ids=lambda argv: argv[-1]
)
def test_a_hint_can_be_pasted_into_a_shell_without_harm(scene: SharedEntries, argv: tuple[str, ...]) -> None:
    assert "'a; rm -rf ~'" in scene.refusal(*argv, "a; rm -rf ~")["hint"]
