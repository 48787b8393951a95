"""Clients and servers of different versions: everything works, or is refused before anything is written, and the refusal names the side to
upgrade."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from postroom import __version__, work
from postroom import connect as connect_store
from postroom.core.errors import WrongVersion
from postroom.core.rpc.wire import CONTENT_TYPE, VERSION_HEADER
from postroom.server.rpc.dispatch import routing_table
from postroom.store.remote.versions import check_result_type
from tests.server.releases import EARLIER, WIRES, Release, Served, current, earlier, edited
from tests.server.running_server import RunningServer, refusal
from tests.server.verb_calls import post_verb

# Calls every verb with arguments that write, where the verb writes. It runs with either version.
EVERY_VERB = """
import inspect, json, sys
import postroom
from postroom import mail, people, tasks, work
from postroom.core.errors import Refusal
try:
    from postroom.core.verbs import VERBS
except ImportError:
    from postroom.core.verbs import VERBS
for room in (work, mail, people, tasks):
    for name in room.__all__:
        getattr(room, name)
MESSAGE = {"from": "leader", "to": "builder", "payload": "Hello"}
GIVEN = {"message": MESSAGE, "messages": [MESSAGE], "to": "builder", "subject": "S", "timeout_seconds": 0.01, "limit": 5}
def call_every_verb(store):
    call = store.call if hasattr(store, "call") else store.say
    for name, verb in sorted(VERBS.items()):
        parameters = list(inspect.signature(getattr(verb, "function", verb)).parameters.values())[1:]
        if hasattr(verb, "__wrapped__"):
            parameters = list(inspect.signature(verb.__wrapped__).parameters.values())[1:]
        named = {one.name: GIVEN.get(one.name, "x") for one in parameters if one.default is one.empty or one.name in GIVEN}
        try:
            call(name, (), named)
            yield name, ["done", "", ""]
        except Refusal as refused:
            yield name, [refused.code, str(refused), refused.hint]
    store.close()
print(json.dumps([dict(call_every_verb(postroom.connect(url, token=sys.argv[1]))) for url in sys.argv[2:]]))
"""

# The life of a thread, with a record as an argument.
THREAD = """
import json, sys
import postroom
from postroom import work
from postroom.core.errors import Refusal
from postroom.core.records.work import Attachment
store = postroom.connect(sys.argv[1], token=sys.argv[2])
attached = [Attachment(path="a.md", **json.loads(sys.argv[3]))]
try:
    posted = work.send(store, sender="user", to="builder", subject="S", artifacts=attached)
    thread = posted.thread
    claim = work.claim(store, thread.thread_id, agent="builder")
    work.update(store, thread.thread_id, agent="builder", summary="Half", lease_token=claim.lease.lease_token)
    done = work.done(store, thread.thread_id, agent="builder", summary="Done").thread
    (artifact,) = work.show(store, thread.thread_id).messages[0].artifacts
    listed = [one.thread_id for one in work.list_threads(store).threads]
    print(json.dumps([done.status, artifact.path, thread.thread_id in listed, getattr(posted, "colour", "unknown")]))
except Refusal as refused:
    print(json.dumps([refused.code, str(refused), refused.hint]))
"""


# Runs commands, and prints the exit code and the errors of each.
EVERY_COMMAND = """
import json, os, sys, tempfile
from postroom.cli.inbox import run
outcomes, output = {}, os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
for line in json.loads(sys.argv[1]):
    with tempfile.TemporaryFile() as errors:
        os.dup2(errors.fileno(), 2)
        code = run([*line, "--agent", "builder"])
        sys.stdout.flush(), sys.stderr.flush()
        errors.seek(0)
        outcomes[" ".join(line)] = [code, errors.read().decode()]
os.dup2(output, 1)
print(json.dumps(outcomes))
"""
COMMAND_LINES = (
    "send --from user --to builder --subject S,fetch,take,claim t1,update t1 --summary S,reply t1 --body B,done t1 --summary S,list,"
    "show t1,cancel t1,watch --timeout-seconds 1,wait-reply t1 --timeout-seconds 1,read,wait --timeout-seconds 1,entries,task list,"
    "agent list,run list,pass list,workspace list,queue list,job list"
)
UNKNOWN_LINE = ("is not a command", "is not expected here")  # of a version without the command, or without its positional argument


@pytest.fixture(scope="module", params=EARLIER.values(), ids=list(EARLIER))
def old(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Release:
    return earlier(request.param, tmp_path_factory.mktemp("earlier"))


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with current().serve() as server:
        yield server


@pytest.fixture(scope="module")
def old_served(old: Release) -> Iterator[Served]:
    with old.serve() as server:
        yield server


def _outcomes(client: Release, server: Served, *wires: str) -> dict[str, dict[str, list[str]]]:
    """What becomes of each verb, over each of these wires, from one process."""
    found: list[dict[str, list[str]]] = client.run(EVERY_VERB, server.token, *map(server.url, wires))
    assert min(map(len, found)) >= 100
    return dict(zip(wires, found, strict=True))


def _command_outcomes(client: Release, server: Served) -> dict[str, tuple[int, str]]:
    lines = [line.split() for line in COMMAND_LINES.split(",")]
    found = client.run(EVERY_COMMAND, json.dumps(lines), INBOX_DB=server.url("http"), INBOX_TOKEN=server.token)
    return {line: tuple(outcome) for line, outcome in found.items() if not any(text in outcome[1] for text in UNKNOWN_LINE)}


def _thread(client: Release, server: Served, **attached: str) -> list[Any]:
    found: list[Any] = client.run(THREAD, server.url("http"), server.token, json.dumps(attached))
    return found


# A version before this format


def test_an_earlier_client_is_refused_before_anything_is_written(old: Release, served: Served) -> None:
    before = served.rows()
    for wire, found in _outcomes(old, served, *WIRES).items():
        for verb, (code, message, hint) in found.items():
            told = code, "the client is older" in message, "Upgrade the client" in hint
            assert told == ("wrong_version", True, True), (wire, verb, message)
    assert served.rows() == before


def test_an_earlier_server_is_recognised_before_anything_is_written(old_served: Served) -> None:
    before = old_served.rows()
    for wire, found in _outcomes(current(), old_served, *WIRES).items():
        assert set(found) == set(routing_table())
        for verb, (code, message, hint) in found.items():
            assert (code, "is older than" in message, hint) == ("wrong_version", True, "Upgrade the server."), (wire, verb, message)
    assert old_served.rows() == before


def test_the_commands_of_an_earlier_client_name_the_side_to_upgrade(old: Release, served: Served) -> None:
    before = served.rows()
    found = _command_outcomes(old, served)
    assert len(found) >= 10
    for line, (code, printed) in found.items():
        assert (code, "Upgrade the client." in printed) == (50, True), (line, printed)
    assert served.rows() == before


def test_commands_name_an_earlier_server_as_the_side_to_upgrade(old_served: Served) -> None:
    before = old_served.rows()
    found = _command_outcomes(current(), old_served)
    assert len(found) == len(COMMAND_LINES.split(","))
    for line, (code, printed) in found.items():
        assert (code, "Upgrade the server." in printed) == (50, True), (line, printed)
    assert old_served.rows() == before


def test_the_same_commands_of_the_same_version_do_write(served: Served) -> None:
    before = served.rows()
    found = _command_outcomes(current(), served)
    assert found["fetch"] == found["list"] == (0, "")
    assert len(found) == len(COMMAND_LINES.split(","))
    assert served.rows() != before


@pytest.mark.parametrize("wire", WIRES)
def test_the_same_calls_of_the_same_version_do_write(wire: str) -> None:
    """Else the tests above would prove nothing."""
    with current().serve() as server:
        before = server.rows()
        found = _outcomes(current(), server, wire)[wire]
        assert found["work.send"][0] == found["mail.enqueue"][0] == "done"
        assert "wrong_version" not in {code for code, _, _ in found.values()}
        assert server.rows() != before


# Versions of this format that differ in a record


def test_a_server_with_an_optional_field_more_works(served: Served, tmp_path: Path) -> None:
    with edited(tmp_path, PostedMessage='colour: str = "none"', Attachment='caption: str = "none"').serve() as server:
        assert _thread(current(), server) == ["done", "a.md", True, "unknown"]


def test_a_server_with_an_optional_field_less_works(served: Served, tmp_path: Path) -> None:
    newer = edited(tmp_path, PostedMessage='colour: str = "none"', Attachment='caption: str = "none"')
    assert _thread(newer, served, caption="A picture") == ["done", "a.md", True, "none"]


def test_a_server_without_a_field_that_the_client_needs_is_called_older(served: Served, tmp_path: Path) -> None:
    code, message, hint = _thread(edited(tmp_path, PostedMessage="colour: str"), served)
    assert (code, hint) == ("wrong_version", "Upgrade the server.")
    assert "'colour'" in message


def test_a_client_without_a_field_that_the_server_needs_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with edited(tmp_path, Attachment="caption: str").serve() as server:
        before = server.rows()
        code, message, hint = _thread(current(), server)
        assert (code, hint) == ("wrong_version", "Upgrade the client.")
        assert "'caption'" in message
        assert server.rows() == before


# Negotiation


def test_a_content_type_of_another_version_is_refused_with_the_side_to_upgrade(server: RunningServer) -> None:
    versioned = "application/vnd.postroom.v{}+json"
    for kind, side in (("application/json", "client"), (versioned.format(2), "client"), (versioned.format(4), "server")):
        answer = server.person.post("/api/verbs/mail.sessions", content=b"{}", headers={"Content-Type": kind})
        error = refusal(answer, 400, "wrong_version")
        assert (f"the {side} is older" in error["message"], f"Upgrade the {side}" in error["hint"]) == (True, True)
        assert answer.headers[VERSION_HEADER] == __version__
    refusal(server.person.post("/api/verbs/mail.sessions", content=b"{}", headers={"Content-Type": "text/plain"}), 400, "invalid_input")


def test_every_answer_to_a_verb_has_the_servers_version(server: RunningServer) -> None:
    for verb, status in (("mail.sessions", 200), ("mail.burn", 404), ("mail.peek", 400)):
        answer = post_verb(server.person, verb, b"{}")
        assert (answer.status_code, answer.headers[VERSION_HEADER]) == (status, __version__)
        assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("offered", "side"), [([], "client"), (["postroom.verbs.v2"], "client"), (["postroom.verbs.v4"], "server"), (["chat"], "client")]
)
def test_an_upgrade_without_the_subprotocol_is_refused(server: RunningServer, offered: list[str], side: str) -> None:
    url, headers = f"{server.url.replace('http', 'ws', 1)}/api/verbs", {"Authorization": f"Bearer {server.ready['token']}"}
    with pytest.raises(InvalidStatus) as refused, connect(url, additional_headers=headers, subprotocols=offered or None, proxy=None):  # type: ignore[arg-type]
        pass
    assert refused.value.response.status_code == 400
    assert f"the {side} is older" in (refused.value.response.body or b"").decode()


UNKNOWN_NAMES = (("work.no_such_verb", b"{}"), ("work.send", b'{"named": {"sender": "user", "colour": 1}}'))


@pytest.mark.parametrize(("version", "side"), [("9.9", "server"), (__version__, "server"), ("0.1.7", "client")])
def test_an_unknown_verb_or_argument_of_a_postroom_client_names_the_side_to_upgrade(server: RunningServer, version: str, side: str) -> None:
    for verb, body in UNKNOWN_NAMES:
        error = refusal(post_verb(server.person, verb, body, **{VERSION_HEADER: version}), 400, "wrong_version")
        assert (f"the {side} is older" in error["message"], error["hint"]) == (True, f"Upgrade the {side}.")
        assert (f"(server {__version__}, client {version})" in error["message"]) is (version != __version__)


def test_an_unknown_verb_or_argument_of_another_program_is_its_mistake(server: RunningServer) -> None:
    """A program that sends no version, as curl does."""
    (verb, body), (known_verb, unknown_argument) = UNKNOWN_NAMES
    headers = {VERSION_HEADER: ""}
    refusal(post_verb(server.person, verb, body, **headers), 404, "not_found")
    refusal(post_verb(server.person, known_verb, unknown_argument, **headers), 400, "invalid_input")


def test_a_wrong_argument_name_is_a_type_error_before_anything_is_sent() -> None:
    """Else the server would take a mistake for a newer client."""
    with connect_store("http://127.0.0.1:1") as store, pytest.raises(TypeError, match="colour"):
        work.send(store, sender="user", to="builder", subject="S", colour="blue")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("verb", "result", "version", "side"),
    [
        ("work.fetch", (), __version__, "server"),
        ("work.fetch", None, "0.1.9", "server"),
        ("tasks.take", (), "9.9", "client"),
        ("work.list_agents", ("builder",), __version__, "server"),
    ],
)
def test_a_result_of_another_type_names_the_side_to_upgrade(verb: str, result: Any, version: str, side: str) -> None:
    routing_table()
    with pytest.raises(WrongVersion) as refused:
        check_result_type(verb, result, version)
    assert (f"the {side} is older" in str(refused.value), refused.value.hint) == (True, f"Upgrade the {side}.")


def test_every_verb_declares_the_type_of_its_result() -> None:
    for verb in routing_table().values():
        assert verb.result_type, verb.name


def test_the_content_type_is_that_of_the_wire_format() -> None:
    assert CONTENT_TYPE == "application/vnd.postroom.v3+json"
