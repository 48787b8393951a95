"""The AsyncAPI file: it is served, knows the fields that the server reads, and its references lead somewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from postroom.server.ws.frames import FIELDS, REQUIRED, VERB_FIELDS
from tests.server.running_server import RunningServer
from tests.server.wires import described


def test_the_file_is_served_and_is_asyncapi_3(server: RunningServer) -> None:
    served = server.get("/api/asyncapi.json")
    assert served == described()
    assert served["asyncapi"].startswith("3.0")


def test_the_file_knows_the_fields_that_the_server_reads() -> None:
    messages = described()["components"]["messages"]
    operations = described()["operations"]
    said = {one["messages"][0]["$ref"].rpartition("/")[2] for one in operations.values() if one["action"] == "receive"}
    assert said == {*FIELDS, *VERB_FIELDS}
    for op, fields in {**FIELDS, **VERB_FIELDS}.items():
        payload = messages[op]["payload"]
        assert set(payload["properties"]) == {"op", "id", *fields}
        assert set(payload["required"]) == {"op", *filter(None, [REQUIRED.get(op)])}
        assert ("additionalProperties" in payload) is (op == "call")  # the mailbox protocol ignores unknown fields


def test_every_reference_in_the_file_leads_somewhere() -> None:
    def walk(found: Any) -> Iterator[str]:
        if isinstance(found, dict):
            if isinstance(found.get("$ref"), str):
                yield found["$ref"]
            for value in found.values():
                yield from walk(value)
        elif isinstance(found, list):
            for value in found:
                yield from walk(value)

    for reference in set(walk(described())):
        target: Any = described()
        for name in reference.removeprefix("#/").split("/"):
            target = target[name]
        assert target
