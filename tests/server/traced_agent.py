"""A process of its own that has loaded the SDK of OpenTelemetry: it acts as an agent, and prints its spans as JSON lines.

    python traced_agent.py send|work STORE [TOKEN]

`work` takes a thread, asks a question in it, waits for the answer and finishes.
"""

from __future__ import annotations

import json
import sys

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import postroom
from postroom import work
from postroom.core.tracing import use_traceparent
from postroom.store.interface import Store


def main() -> None:
    role, place = sys.argv[1:3]
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    with postroom.connect(place, token=sys.argv[3]) if len(sys.argv) > 3 else postroom.open(place) as store:
        send(store) if role == "send" else take_and_ask(store)
    for span in exporter.get_finished_spans():
        assert span.context is not None
        parent = None if span.parent is None else f"{span.parent.span_id:016x}"
        ids = {"trace": f"{span.context.trace_id:032x}", "span": f"{span.context.span_id:016x}", "parent": parent}
        print(json.dumps({"name": span.name, "kind": span.kind.name, **ids}))


def send(store: Store) -> None:
    with trace.get_tracer("test").start_as_current_span("the leader plans"):
        work.send(store, sender="user", to="builder", subject="Add the login page")


def take_and_ask(store: Store) -> None:
    claim = work.wait_take(store, agent="builder", timeout_seconds=30)
    assert claim is not None
    thread_id = claim.thread.thread_id
    with use_traceparent(claim.messages[-1].traceparent):
        asked = work.update(store, thread_id, agent="builder", status="blocked", summary="Which colour?", to="user")
        answer = work.wait_reply(store, thread_id, agent="builder", after_event=asked.next_event_id, timeout_seconds=30)
        work.done(store, thread_id, agent="builder", summary=answer.message.summary if answer.message else "")


if __name__ == "__main__":
    main()
