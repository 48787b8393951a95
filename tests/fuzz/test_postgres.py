"""Hostile calls of a server on PostgreSQL, whose columns and indexes refuse what SQLite takes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import strategies as st

from postroom.core.rpc.wire import CONTENT_TYPE
from tests.cli.process import Inbox
from tests.fuzz.doors import MANY, hostile_calls
from tests.fuzz.hostile_input import encode, fuzz
from tests.postgres_server import Postgres
from tests.server.running_server import RunningServer

# Texts that are as long as a name, an id of a mail or a line may be, and that PostgreSQL cannot compress in a key of an index.
_LETTERS = [chr(code) for code in range(0x20000, 0x2A6D0)]
LONG_TEXTS = st.builds(
    lambda size, seed: "".join(random.Random(seed).choices(_LETTERS, k=size)), st.sampled_from([200, 256, 400, 1024]), st.integers(0, 5)
)


def long_calls() -> st.SearchStrategy[tuple[str, bytes]]:
    """Calls whose texts are as long as they may be."""
    named = {
        "work.send": ("sender", "to", "subject", "thread_id", "run_id", "task_id", "summary", "key", "traceparent"),
        "mail.enqueue": ("message",),
        "people.notify": ("sender", "text"),
        "tasks.submit": ("source_agent", "target_agent", "description", "parent"),
        "tasks.register": ("name", "description", "skills"),
        "people.register_route": ("agent", "route", "session", "program", "host"),
        "people.note_injected": ("items", "agent", "route", "session"),
        "people.hand_over_messages": ("agent", "client"),
        "people.keep_conversation": ("thread_id", "agent", "program", "session", "turns"),
    }
    plain: dict[str, st.SearchStrategy[Any]] = {
        "message": st.fixed_dictionaries({"msg_id": LONG_TEXTS, "from": LONG_TEXTS, "to": LONG_TEXTS, "payload": LONG_TEXTS}),
        "items": st.lists(LONG_TEXTS, max_size=3),
        "skills": st.lists(LONG_TEXTS, max_size=3),
        "route": st.sampled_from(["hook", "queue", "input", "resident"]),
        "turns": st.integers(0, 2**63 - 1),
    }

    def call_of(verb: str) -> st.SearchStrategy[tuple[str, bytes]]:
        values = st.fixed_dictionaries({}, optional={name: plain.get(name, LONG_TEXTS) for name in named[verb]})
        return st.tuples(st.just(verb), st.builds(lambda given: encode({"named": given}), values))

    return st.sampled_from(sorted(named)).flatmap(call_of)


@pytest.mark.fuzz
@pytest.mark.timeout(900)
def test_verbs_on_postgres(postgres: Postgres, tmp_path: Path) -> None:
    with postgres.store() as url:
        inbox = Inbox(tmp_path)
        inbox.ok("workspace", "add", ".", "--label", "Stage", "--agent", "builder", "--db", url)
        server = RunningServer(tmp_path, "--db", url).open()
        try:
            headers = {"Content-Type": CONTENT_TYPE, "Authorization": "Bearer " + server.ready["token"]}
            with httpx.Client(base_url=server.ready["url"], timeout=20, headers=headers) as client:

                def call(given: tuple[str, bytes]) -> None:
                    answer = client.post(f"/api/verbs/{given[0]}", content=given[1])
                    assert answer.status_code < 500, (given, answer.text[:500])

                fuzz(MANY, st.one_of(hostile_calls(), long_calls(), long_calls()), call)
        finally:
            server.close()
