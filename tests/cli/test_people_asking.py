"""`inbox ask`: a real process that sleeps until a person answers, a deadline passes, its time is over, or it is told to stop."""

from __future__ import annotations

import re
import signal
from typing import Any

import pytest

from tests.cli.people_workspace import AGENT, BOUND, LABEL, PeopleWorkspace
from tests.cli.process import Finished, Inbox, eventually

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
ASK = ("ask", "--from", "builder", "--question", "Ship it?")
CHOICES = ("--choice", "yes", "--choice", "no")
SOON = ("--deadline-seconds", "0.05")  # real, and short
NUMBERS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
ANSWER = {
    "entry_id",
    "verified",
    "state",
    "answer",
    "choice",
    "answered_by",
    "answered_at",
    "door",
    "deadline",
    "to",
    "question_id",
    "answer_id",
    "decision",
    "accepted",
}
QUESTION = {
    *("state", "to", "choices", "deadline", "onSilence", "default", "escalateTo", "escalatedAt"),
    *("answer", "choice", "answeredBy", "answeredAt", "answerId", "questionId", "entryId", "dangerous", "proposal", "decision"),
}


@pytest.fixture
def desk(inbox: Inbox) -> PeopleWorkspace:
    return PeopleWorkspace(inbox)


def _answer(finished: Finished, code: int = 0) -> dict[str, Any]:
    assert (finished.code, finished.stderr) == (code, ""), finished
    answer: dict[str, Any] = finished.json["answer"]
    assert set(answer) == ANSWER
    return answer


def _waiting(desk: PeopleWorkspace) -> str:
    """The one question that waits; its id."""
    [identity] = desk.ids("--questions")
    return identity


def _reply(desk: PeopleWorkspace, identity: str, body: str = "yes") -> None:
    desk.inbox.ok("entry", "reply", identity, "--body", body)


def test_a_sleeping_question_is_woken_by_a_reply(desk: PeopleWorkspace) -> None:
    waiter = desk.inbox.start(*ASK, *CHOICES, *BOUND, "--json").sleeping()
    identity = _waiting(desk)
    _reply(desk, identity)
    finished = waiter.finish()
    answer = _answer(finished)
    assert (finished.json["ok"], finished.json["schema_version"], finished.json["command"]) == (True, 1, "ask")
    assert STAMP.fullmatch(answer["answered_at"])
    answer.pop("answered_at")
    assert answer.pop("answer_id").startswith("rep_")
    fixed = {"entry_id": identity, "question_id": identity, "door": "cli", "deadline": None, "to": "user", "verified": False}
    fixed |= {"accepted": True}
    assert answer == {**fixed, "state": "answered", "answer": "yes", "choice": "yes", "answered_by": "user", "decision": None}


@pytest.mark.parametrize("flags", [("--no-wait",), ("--timeout-seconds", "0.05")])
def test_an_answer_comes_with_the_whole_entry(desk: PeopleWorkspace, flags: tuple[str, ...]) -> None:
    answer = desk.inbox.run(*ASK, *CHOICES, *flags, "--json").json
    assert answer["answer"]["entry_id"] == _waiting(desk)
    assert answer["entry"] == desk.entry(_waiting(desk))


def test_a_question_is_an_entry_with_all_that_was_asked(desk: PeopleWorkspace) -> None:
    argv = (*ASK, "--to", "maria", *CHOICES, "--deadline-seconds", "3600", "--on-silence", "default", "--default", "no", "--no-wait")
    entry = desk.entry(desk.inbox.ok(*argv)["answer"]["entry_id"])
    assert (entry["kind"], entry["from"], entry["comments"], entry["door"]) == ("question", "builder", "Ship it?", "cli")
    assert (entry["workspaceId"], entry["workspaceLabel"]) == ("", "builder")
    question = entry["question"]
    assert set(question) == QUESTION
    assert STAMP.fullmatch(question.pop("deadline"))
    assert (question.pop("questionId"), question.pop("entryId")) == (entry["id"], entry["id"])
    said = {name: value for name, value in question.items() if value is not None}
    assert said == {"state": "open", "to": "maria", "choices": ["yes", "no"], "dangerous": [], "onSilence": "default", "default": "no"}


def test_a_question_of_a_workspaces_agent_is_the_workspaces(desk: PeopleWorkspace) -> None:
    desk.inbox.ok("ask", "--question", "Ship it?", "--no-wait", INBOX_AGENT=AGENT)
    entry = desk.entry(_waiting(desk))
    assert (entry["from"], entry["workspaceId"], entry["workspaceLabel"]) == (AGENT, desk.workspace_id, LABEL)


def test_people_are_told_the_answer_and_that_nobody_vouches_for_it(desk: PeopleWorkspace) -> None:
    waiter = desk.inbox.start(*ASK, *BOUND).sleeping()
    _reply(desk, _waiting(desk), "Yes,\nbut slowly")
    finished = waiter.finish()
    assert (finished.code, finished.stderr) == (0, "")
    assert all(text in finished.stdout for text in ("user", "Yes,", "but slowly"))
    assert "unverified" in finished.stdout


def test_the_reply_of_the_command_line_is_shown_as_unverified(desk: PeopleWorkspace) -> None:
    """So its help says."""
    identity = desk.push()
    _reply(desk, identity, "Extend it")
    assert "unverified" in desk.inbox.says("entry", "show", identity)


# whether to go on


def test_a_reply_that_is_no_choice_keeps_the_question_open(desk: PeopleWorkspace) -> None:
    identity = desk.ask(choices=("yes", "no"))
    refused = desk.inbox.run("entry", "reply", identity, "--body", "maybe", "--json")
    assert refused.error[:2] == (30, "invalid_input")
    assert "yes, no" in refused.json["error"]["hint"]
    assert desk.inbox.run("ask", "--entry", identity, "--timeout-seconds", "0.05").code == 10


def test_a_comment_answers_in_other_words_and_is_no_consent(desk: PeopleWorkspace) -> None:
    identity = desk.ask(choices=("yes", "no"))
    desk.inbox.ok("entry", "reply", identity, "--body", "Perhaps", "--comment")
    answer = _answer(desk.inbox.run("ask", "--entry", identity, "--json"), 20)
    assert (answer["state"], answer["answer"], answer["choice"], answer["accepted"]) == ("answered", "Perhaps", None, False)


GO_ON = {
    "a choice": (CHOICES, ("--body", "yes"), (), 0),
    "a refusal": (CHOICES, ("--body", "no"), (), 20),
    "the refusal that was expected": (CHOICES, ("--body", "no"), ("--expect", "no"), 0),
    "another answer than the expected one": (CHOICES, ("--body", "yes"), ("--expect", "no"), 20),
    "any text": ((), ("--body", "Tuesday"), (), 0),
    "an approval": (("--propose", "Dear all"), ("--approve",), (), 0),
    "a rejection": (("--propose", "Dear all"), ("--reject",), (), 20),
}


@pytest.mark.parametrize("case", GO_ON)
def test_a_script_goes_on_only_with_consent(desk: PeopleWorkspace, case: str) -> None:
    terms, reply, flags, code = GO_ON[case]
    identity = desk.inbox.ok(*ASK, *terms, "--no-wait")["answer"]["entry_id"]
    desk.inbox.ok("entry", "reply", identity, *reply)
    assert desk.inbox.run("ask", "--entry", identity, *flags).code == code


@pytest.mark.parametrize(("field", "printed"), [("answer", "no\n"), ("state", "answered\n")])
def test_one_field_of_the_answer_is_printed_for_a_script(desk: PeopleWorkspace, field: str, printed: str) -> None:
    identity = desk.inbox.run(*ASK, *CHOICES, "--no-wait", "--print", "id").stdout.strip()
    _reply(desk, identity, "no")
    finished = desk.inbox.run("ask", "--entry", identity, "--print", field)
    assert (finished.code, finished.stdout, finished.stderr) == (20, printed, "")


@pytest.mark.parametrize(
    "flags", [("--expect", "maybe"), ("--print", "everything"), ("--print", "answer", "--json"), ("--expect", "yes", "--no-wait")]
)
def test_flags_that_cannot_be_met_are_refused_before_the_question_is_asked(desk: PeopleWorkspace, flags: tuple[str, ...]) -> None:
    assert desk.inbox.run(*ASK, *CHOICES, *flags).code == 30
    assert desk.ids() == []


def test_a_question_sleeps_on_through_what_does_not_concern_it(desk: PeopleWorkspace) -> None:
    other = desk.ask("Another?")
    waiter = desk.inbox.start(*ASK, *BOUND, "--json").sleeping()
    [identity] = [entry for entry in desk.ids("--questions") if entry != other]
    _reply(desk, other, "The other")
    desk.push()
    desk.inbox.ok("entry", "read", identity)
    assert waiter.alive()
    _reply(desk, identity, "This one")
    assert _answer(waiter.finish())["answer"] == "This one"


def test_of_many_sleeping_questions_each_gets_its_own_answer(desk: PeopleWorkspace) -> None:
    waiters = {
        text: desk.inbox.start("ask", "--from", text, "--question", text, *BOUND, "--json").sleeping() for text in ("red", "green", "blue")
    }
    for entry in desk.inbox.ok("entries", "--questions")["entries"]:
        _reply(desk, entry["id"], f"{entry['comments']} it is")
    assert {text: _answer(waiter.finish())["answer"] for text, waiter in waiters.items()} == {text: f"{text} it is" for text in waiters}


# going on


def test_a_wait_in_vain_exits_10_and_goes_on_by_its_id(desk: PeopleWorkspace) -> None:
    first = _answer(desk.inbox.run(*ASK, "--timeout-seconds", "0.05", "--json"), 10)
    assert (first["state"], first["answer"], first["to"]) == ("open", None, "user")
    again = desk.inbox.start("ask", "--entry", first["entry_id"], *BOUND, "--json").sleeping()
    _reply(desk, first["entry_id"])
    assert _answer(again.finish())["answer"] == "yes"
    assert len(desk.ids()) == 1
    assert _answer(desk.inbox.run("ask", "--entry", first["entry_id"], "--json"))["answer"] == "yes"


def test_a_wait_in_vain_tells_people_the_command_that_goes_on(desk: PeopleWorkspace) -> None:
    finished = desk.inbox.run(*ASK, "--timeout-seconds", "0.05")
    assert (finished.code, finished.stderr) == (10, "")
    assert f"inbox ask --entry {_waiting(desk)}" in finished.stdout


def test_only_asking_waits_for_nobody(desk: PeopleWorkspace) -> None:
    answer = _answer(desk.inbox.run(*ASK, "--no-wait", "--json"))
    assert (answer["state"], answer["entry_id"]) == ("open", _waiting(desk))
    identity = desk.inbox.says("ask", "--from", "builder", "--question", "Why?", "--no-wait")
    assert desk.ids()[0] in identity


def test_an_answer_that_came_meanwhile_is_told_at_once(desk: PeopleWorkspace) -> None:
    identity = desk.ask()
    _reply(desk, identity)
    assert _answer(desk.inbox.run("ask", "--entry", identity, "--timeout-seconds", "0.05", "--json"))["answer"] == "yes"
    assert desk.inbox.says("ask", "--entry", identity).splitlines()[1:] == ["  yes"]


@pytest.mark.parametrize(("number", "code"), NUMBERS)
def test_a_signal_ends_the_wait_and_says_how_to_go_on_without_asking_again(
    desk: PeopleWorkspace, number: signal.Signals, code: int
) -> None:
    waiter = desk.inbox.start(*ASK, "--json").sleeping()
    identity = _waiting(desk)
    waiter.process.send_signal(number)
    finished = waiter.finish()
    assert finished.error[:2] == (code, "interrupted")
    error = finished.json["error"]
    assert error["entry_id"] == identity
    assert f"inbox ask --entry {identity}" in error["hint"]
    _reply(desk, identity)
    assert _answer(desk.inbox.run("ask", "--entry", error["entry_id"], "--json"))["answer"] == "yes"


def test_a_signal_ends_the_wait_for_people_with_the_command_that_goes_on(desk: PeopleWorkspace) -> None:
    waiter = desk.inbox.start(*ASK).sleeping()
    waiter.process.terminate()
    finished = waiter.finish()
    assert (finished.code, finished.stdout) == (143, "")
    assert finished.stderr.startswith("error: the wait was interrupted\nhint: ")
    assert f"inbox ask --entry {_waiting(desk)}" in finished.stderr


def test_a_question_whose_asker_was_killed_still_waits(desk: PeopleWorkspace) -> None:
    waiter = desk.inbox.start(*ASK).sleeping()
    waiter.process.kill()
    waiter.finish()
    identity = _waiting(desk)
    _reply(desk, identity)
    assert _answer(desk.inbox.run("ask", "--entry", identity, "--json"))["answer"] == "yes"


def test_a_question_that_is_deleted_ends_the_wait_with_40(desk: PeopleWorkspace) -> None:
    waiter = desk.inbox.start(*ASK, *BOUND, "--json").sleeping()
    identity = _waiting(desk)
    desk.inbox.ok("entry", "delete", identity)
    finished = waiter.finish()
    assert finished.error[:2] == (40, "not_found")
    assert identity in finished.error[2]


# silence


def test_silence_stands_for_the_default(desk: PeopleWorkspace) -> None:
    answer = _answer(desk.inbox.run(*ASK, *CHOICES, *SOON, "--on-silence", "default", "--default", "no", *BOUND, "--json"), 20)
    assert (answer["state"], answer["answer"], answer["choice"], answer["answered_by"]) == ("default", "no", "no", None)
    question = desk.entry(answer["entry_id"])["question"]
    assert (question["state"], question["answer"], question["answeredAt"]) == ("default", "no", question["deadline"])
    assert answer["answered_at"] == question["deadline"]
    said = desk.inbox.run("ask", "--entry", answer["entry_id"]).stdout
    assert "no" in said.split()


def test_silence_refuses_with_exit_20(desk: PeopleWorkspace) -> None:
    answer = _answer(desk.inbox.run(*ASK, *SOON, "--on-silence", "refuse", *BOUND, "--json"), 20)
    assert (answer["state"], answer["answer"], answer["answered_by"]) == ("refused", None, None)
    assert desk.entry(answer["entry_id"])["question"]["state"] == "refused"
    assert "refused" in desk.inbox.run(*ASK, *SOON, "--on-silence", "refuse", *BOUND).stdout


def test_silence_escalates_to_another_person_whose_answer_wakes(desk: PeopleWorkspace) -> None:
    waiter = desk.inbox.start(*ASK, *SOON, "--on-silence", "escalate", "--escalate-to", "maria", *BOUND, "--json").sleeping()
    identity = _waiting(desk)
    eventually(lambda: desk.entry(identity)["question"]["to"] == "maria")
    state = desk.entry(identity)["question"]
    assert (state["state"], state["escalatedAt"], state["escalateTo"]) == ("open", state["deadline"], "maria")
    assert waiter.alive()
    desk.inbox.ok("entry", "reply", identity, "--body", "Go", "--agent", "maria")
    answer = _answer(waiter.finish())
    assert (answer["state"], answer["answer"], answer["answered_by"], answer["to"]) == ("answered", "Go", "maria", "maria")
    steps = [receipt["step"] for receipt in desk.shown(identity)["receipts"]]
    assert [step for step in steps if step in ("stored", "escalated", "answered", "reply_seen")] == [
        *("stored", "escalated", "answered", "reply_seen")
    ]


def test_an_escalated_question_is_unread_and_has_no_further_deadline(desk: PeopleWorkspace) -> None:
    identity = desk.ask(deadline_seconds=0.05, on_silence="escalate", escalate_to="maria")
    answer = _answer(desk.inbox.run("ask", "--entry", identity, "--timeout-seconds", "0.5", "--json"), 10)
    assert (answer["state"], answer["to"], answer["deadline"]) == ("open", "maria", None)
    assert desk.ids("--unread") == [identity]


def test_whoever_next_looks_fires_the_deadline(desk: PeopleWorkspace) -> None:
    """No process waits: the list itself shows that the time is over."""
    identity = desk.ask(deadline_seconds=0.001, on_silence="refuse")
    assert desk.ids("--questions") == []
    [entry] = desk.inbox.ok("entries")["entries"]
    assert (entry["id"], entry["question"]["state"]) == (identity, "refused")
    assert "refused" in desk.inbox.says("entries")


def test_a_word_after_the_deadline_is_a_reply_and_changes_no_answer(desk: PeopleWorkspace) -> None:
    identity = desk.ask(deadline_seconds=0.001, on_silence="default", default="no")
    told = desk.inbox.ok("entry", "reply", identity, "--body", "yes")
    assert (told["reply"]["via"], told["entry"]["question"]["state"], told["entry"]["question"]["answer"]) == ("mailbox", "default", "no")


def test_an_answer_before_the_deadline_counts(desk: PeopleWorkspace) -> None:
    argv = (*ASK, *CHOICES, "--deadline-seconds", "3600", "--on-silence", "refuse", *BOUND, "--json")
    waiter = desk.inbox.start(*argv).sleeping()
    _reply(desk, _waiting(desk), "no")
    assert _answer(waiter.finish(), 20)["choice"] == "no"


def test_a_collected_answer_has_its_receipts(desk: PeopleWorkspace) -> None:
    identity = desk.inbox.ok(*ASK, "--no-wait")["answer"]["entry_id"]
    _reply(desk, identity)
    desk.inbox.ok("ask", "--entry", identity)
    receipts = [(receipt["step"], receipt["by"], receipt["door"]) for receipt in desk.shown(identity)["receipts"]]
    assert receipts == [
        *(("stored", "builder", "cli"), ("seen", "user", "cli"), ("answered", "user", "cli"), ("reply_stored", "user", "cli")),
        ("reply_seen", "builder", "cli"),
    ]


def test_who_is_made_known_as_a_person_finds_what_they_were_asked(desk: PeopleWorkspace) -> None:
    thread = desk.inbox.send()
    desk.inbox.ok("claim", "--agent", "builder", "--thread", thread)
    desk.inbox.ok("update", "--agent", "builder", "--thread", thread, "--status", "blocked", "--summary", "Which?", "--to", "bob")
    assert desk.inbox.ok("entries", "--questions")["entries"] == []
    desk.inbox.ok("agent", "add", "bob", "--kind", "human")
    assert [entry["comments"] for entry in desk.inbox.ok("entries", "--questions")["entries"]] == ["Which?"]
