"""A server seen by a monitor: metrics for Prometheus, and whether the server is ready."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

import postroom
from postroom import mail, people, work
from postroom.core.errors import NotFound
from postroom.store.postgres.connection_url import parse_url
from tests.cli.process import eventually
from tests.server.running_server import RunningServer, refusal

MakeServer = Callable[..., RunningServer]
Sample = tuple[str, frozenset[tuple[str, str]]]
ROOT = Path(__file__).parents[2]


def scrape(server: RunningServer) -> dict[Sample, float]:
    answer = server.person.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    return {(sample.name, frozenset(sample.labels.items())): sample.value for family in families for sample in family.samples}


def value(scraped: dict[Sample, float], name: str, **labels: str) -> float:
    return scraped.get((name, frozenset(labels.items())), 0)


def send_over_http(server: RunningServer, *subjects: str) -> None:
    with postroom.connect(server.url, token=server.ready["token"]) as store:
        for subject in subjects:
            work.send(store, sender="user", to="bo", subject=subject)


def test_requests_and_verbs_are_counted_by_route_and_result(found: MakeServer) -> None:
    server = found().open()
    send_over_http(server, "One", "Two")
    with postroom.connect(server.url, token=server.ready["token"]) as store, pytest.raises(NotFound):
        work.show(store, "none such")
    server.person.get("/api/inbox/nothing-here")
    scraped = scrape(server)
    assert value(scraped, "postroom_http_requests_total", method="POST", route="/api/verbs/{verb}", status="200") == 2
    assert value(scraped, "postroom_http_requests_total", method="GET", route="/api/inbox/{id}", status="404") == 1
    results = {dict(labels)["result"]: count for (name, labels), count in scraped.items() if name == "postroom_verbs_total"}
    assert results == {"ok": 2, "not_found": 1}
    assert value(scraped, "postroom_verb_seconds_count", verb="work.send") == 2
    assert value(scraped, "postroom_commit_verbs_sum") >= 2
    assert value(scraped, "postroom_http_requests_in_progress") == 1


def test_what_waits_in_the_store_is_shown(found: MakeServer) -> None:
    server = found().open()
    workspace = server.add_workspace()
    workspace.push(comments="Unread")
    with postroom.open(server.place) as store:
        work.send(store, sender="lead", to="bo", subject="Pending")
        people.ask(store, workspace_id=workspace.workspace_id, question="Ship?")
        mail.enqueue(store, {"from": "lead", "to": "box", "payload": "x"})
    scraped = scrape(server)
    assert value(scraped, "postroom_store_up") == 1
    assert value(scraped, "postroom_pending_threads") == 1
    assert value(scraped, "postroom_oldest_pending_thread_seconds") > 0
    assert value(scraped, "postroom_open_questions") == 1
    assert value(scraped, "postroom_unread_entries") >= 1
    assert value(scraped, "postroom_waiting_mail") == 1
    assert value(scraped, "postroom_dead_letters") == 0


def test_metrics_need_a_token_and_an_agents_will_do(found: MakeServer) -> None:
    server = found().open()
    assert server.stranger.get("/metrics").status_code == 401
    assert server.client(server.add_workspace().token).get("/metrics").status_code == 200


def test_a_path_of_a_stranger_makes_no_new_series(found: MakeServer) -> None:
    server = found().open()
    for number in range(20):
        server.stranger.get(f"/nothing/{number}")
    routes = {dict(labels)["route"] for (name, labels) in scrape(server) if name == "postroom_http_requests_total"}
    assert routes == {"none"}


@contextmanager
def store_away(server: RunningServer) -> Iterator[None]:
    """Have no store where the server looks for it: its file, or its schema, has another name."""
    if "://" not in server.place:
        database = Path(server.place)
        away = database.rename(database.with_suffix(".away"))
        yield
        away.rename(database)
        return
    address = parse_url(server.place)
    with psycopg.connect(address.url, autocommit=True) as connection:
        connection.execute(f"ALTER SCHEMA {address.schema} RENAME TO {address.schema}_away")
        yield
        connection.execute(f"ALTER SCHEMA {address.schema}_away RENAME TO {address.schema}")


def test_a_server_is_ready_while_it_can_read_its_store(found: MakeServer) -> None:
    server = found().open()
    assert server.stranger.get("/ready").json() == {"ok": True}
    with store_away(server):
        eventually(lambda: server.stranger.get("/ready").status_code == 503)
        assert refusal(server.stranger.get("/ready"), 503)["hint"]
        assert server.stranger.get("/health").status_code == 200
    eventually(lambda: server.stranger.get("/ready").status_code == 200)


def test_the_dashboard_shows_metrics_that_exist(found: MakeServer) -> None:
    server = found().open()
    server.add_workspace().push(comments="So that every metric has a sample")
    send_over_http(server, "One")
    known = {name for name, _ in scrape(server)}
    dashboard = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text())
    shown = {name for panel in dashboard["panels"] for target in panel["targets"] for name in re.findall(r"\bpostroom_\w+", target["expr"])}
    assert len(shown) >= 10
    assert shown - known == set()


def test_every_metric_is_in_the_guide(found: MakeServer) -> None:
    server = found().open()
    send_over_http(server, "One")
    named = {re.sub(r"_(bucket|sum|count)$", "", name) for name, _ in scrape(server) if name.startswith("postroom_")}
    guide = (ROOT / "docs" / "guides" / "operations.md").read_text()
    assert {name for name in named if f"`{name}`" not in guide} == set()
