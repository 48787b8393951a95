"""The trace context of a call, and its spans. A message carries the context of its sender: one trace follows it across processes.

A context is a `traceparent` of W3C Trace Context. In a process that has loaded the SDK of OpenTelemetry, it is that of the current span,
and verbs are spans. In others it comes from the request that a server runs, or from the variable TRACEPARENT, and is passed on as it is.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import ContextVar
    from typing import Any, TypeVar

    T = TypeVar("T")

VARIABLE = "TRACEPARENT"
_FIELD_DIGITS = (2, 32, 16, 2)  # version, trace, span, flags
_HEX_DIGITS = frozenset("0123456789abcdef")
_SDK_MODULE = "opentelemetry.sdk.trace"
_requested: ContextVar[str | None] | None = None  # made by the first `use_traceparent`: a command never imports contextvars


def is_traceparent(text: str) -> bool:
    """Return whether a text is a valid `traceparent`."""
    fields = text.split("-")
    if tuple(map(len, fields)) != _FIELD_DIGITS or not _HEX_DIGITS.issuperset("".join(fields)):
        return False
    return fields[0] != "ff" and fields[1].strip("0") != "" and fields[2].strip("0") != ""


def is_recording() -> bool:
    """Return whether this process has loaded the SDK of OpenTelemetry."""
    return _SDK_MODULE in sys.modules


def current_traceparent() -> str | None:
    """Return the trace context of the current call, or None."""
    if is_recording():
        from opentelemetry import trace

        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
    requested = None if _requested is None else _requested.get()
    given = os.environ.get(VARIABLE) if requested is None else requested
    return given if given and is_traceparent(given) else None


def continue_trace(traceparent: str | None) -> str | None:
    """Return the context of the current call if it belongs to the same trace, else the given one.

    For what a call sends on behalf of another one, such as the result of a task that is settled by whoever looks next.
    """
    current = current_traceparent()
    if current is None or traceparent is None:
        return traceparent
    return current if _trace_id(current) == _trace_id(traceparent) else traceparent


def _trace_id(traceparent: str) -> str:
    return traceparent.split("-")[1]


class use_traceparent:  # noqa: N801 - used like a function, in a `with` statement
    """A block whose calls belong to a trace, for example that of a message: `with use_traceparent(message.traceparent)`.

    None begins no trace. It also keeps the context of the process itself out, as a server does for each request.
    """

    def __init__(self, traceparent: str | None) -> None:
        self._traceparent = traceparent
        self._leave: list[Callable[[], object]] = []

    def __enter__(self) -> None:
        global _requested  # noqa: PLW0603
        if _requested is None:
            from contextvars import ContextVar

            _requested = ContextVar("traceparent", default=None)
        variable, token = _requested, _requested.set(self._traceparent or "")
        self._leave.append(lambda: variable.reset(token))
        if is_recording():
            from opentelemetry import context

            attached = context.attach(_make_context(self._traceparent))
            self._leave.append(lambda: context.detach(attached))

    def __exit__(self, *exc: object) -> None:
        while self._leave:
            self._leave.pop()()


def start_span(name: str, kind: str, parent: str | None = None) -> Any:
    """Return a context manager: a span that is the current one inside the block. Only if `is_recording`.

    `kind` is INTERNAL, SERVER or CONSUMER. `parent` is a `traceparent`, by default that of the current span.
    """
    from opentelemetry import trace

    context = None if parent is None else _make_context(parent)
    return trace.get_tracer("postroom").start_as_current_span(name, context=context, kind=trace.SpanKind[kind])


def call_in_span(name: str, run: Callable[[], T]) -> T:
    """Run a verb in a span. If its result carries a message that was sent in a trace, that trace gets a span for the arrival."""
    with start_span(name, "INTERNAL"):
        result = run()
    arrived = getattr(result, "message", None) or next(iter(getattr(result, "messages", ())[-1:]), None)
    parent = getattr(arrived, "traceparent", None)
    if parent is not None and is_traceparent(parent):
        with start_span("postroom receive", "CONSUMER", parent) as span:
            span.set_attribute("messaging.system", "postroom")
            span.set_attribute("messaging.message.id", getattr(arrived, "message_id", None) or getattr(arrived, "msg_id", ""))
    return result


def _make_context(parent: str | None) -> Any:
    """Return a context of OpenTelemetry whose current span is that of another process, or none."""
    from opentelemetry import trace

    if parent is None:
        return trace.set_span_in_context(trace.INVALID_SPAN)
    _, trace_id, span_id, flags = parent.split("-")
    remote = trace.SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=trace.TraceFlags(int(flags, 16)))
    return trace.set_span_in_context(trace.NonRecordingSpan(remote))
