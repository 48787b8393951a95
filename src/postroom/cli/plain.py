"""How `thread` and `notifier` answer, as their document says: data on standard output and all else on standard error."""

from __future__ import annotations

from postroom.cli.envelope import write
from postroom.core.errors import Interrupted, InvalidInput, StoreTrouble
from postroom.core.jsontext import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from postroom.cli.grammar import Program
    from postroom.cli.parsing import Arguments
    from postroom.core.errors import Refusal

OK, LOGIC, USAGE, TROUBLE = 0, 1, 2, 50


class Answer:
    """What a command has to say: `text` for people and pipes, `data` under --json. `trouble` is what went wrong all the same."""

    def __init__(self, text: str, data: dict[str, Any] | None = None, *, trouble: Refusal | None = None) -> None:
        self.text = text
        self.data = data
        self.trouble = trouble
        self.exit_code = OK
        self.after: Callable[[], None] | None = None


def show(args: Arguments, answer: Answer) -> None:
    text = dumps(answer.data) + "\n" if args.json and answer.data is not None else answer.text
    if text:
        write(1, text)
    if answer.trouble is not None:
        answer.exit_code = refuse(args.program, answer.trouble, args.json)


def refuse(program: Program, refusal: Refusal, json: bool) -> int:
    said = " ".join(str(refusal).split("\n"))
    called = f"{program.name} {refusal.command}" if refusal.command else program.name
    suggestion = refusal.hint or f"See `{called} --help`."
    write(2, dumps({"error": said, "suggestion": suggestion}) + "\n" if json else f"Error: {said} - {suggestion}\n")
    return exit_code(program, refusal)


def exit_code(program: Program, refusal: Refusal) -> int:
    """Exit 1 of the notifier means "already queued" or "not there", and nothing else: whoever calls it relies on that."""
    if isinstance(refusal, Interrupted):
        return 128 + int(refusal.facts["signal"])  # type: ignore[call-overload, no-any-return]
    if isinstance(refusal, InvalidInput):
        return USAGE
    return TROUBLE if isinstance(refusal, StoreTrouble) and program.name == "notifier" else LOGIC
