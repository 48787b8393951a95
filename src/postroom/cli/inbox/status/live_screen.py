"""`inbox top`: the status of the store, live in the terminal, where a person answers questions with a key. Needs textual."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Footer, Input, Static

from postroom.cli.framework.terminal import one_line, relative_time
from postroom.cli.inbox.status.gathering import read_status
from postroom.core.errors import Refusal
from postroom.people.replying import reply
from postroom.store.interface import Store

REFRESH_SECONDS = 1.0
MAX_KEYS = 9
APPROVE, REJECT = "approve", "reject"

Data = dict[str, Any]


def run_screen(store: Store, *, person: str) -> None:
    """Show the screen until the person leaves it."""
    StatusApp(store, person).run()


class StatusApp(App[None]):
    """Reads the status every second in one thread of its own, which also sends the answers."""

    CSS = """
    #questions { height: auto; max-height: 40%; }
    #chosen { height: auto; padding: 0 1; }
    #answer { display: none; }
    #notice { height: 1; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Leave"),
        Binding("a", "write", "Answer in words"),
        Binding("escape", "stop_writing", "Back", show=False),
        *(Binding(str(number), f"choose({number})", show=False) for number in range(1, MAX_KEYS + 1)),
    ]

    def __init__(self, store: Store, person: str) -> None:
        super().__init__()
        self._store = store
        self._person = person
        self._reader = ThreadPoolExecutor(max_workers=1)
        self._questions: list[Data] = []
        self._unconfirmed: tuple[str, str] | None = None
        self._answered = ""  # the entry that was answered last
        self._unnoticed = ""  # the entry that took the place of the chosen one, which went away without an answer from here
        self._written_for: Data | None = None  # the question for which an answer in words was begun

    def compose(self) -> ComposeResult:
        table: DataTable[Text] = DataTable(id="questions", cursor_type="row")
        table.add_columns("FROM", "TO", "DEADLINE", "QUESTION")
        yield table
        yield Static(id="chosen", markup=False)
        yield Input(id="answer", placeholder="Your answer; Enter sends it, Escape leaves it")
        yield Static(id="notice", markup=False)
        yield VerticalScroll(Static(id="rest", markup=False))
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(DataTable).focus()
        self.read_again()
        self.set_interval(REFRESH_SECONDS, self.read_again)

    def on_unmount(self) -> None:
        self._reader.shutdown(wait=False, cancel_futures=True)

    def read_again(self) -> None:
        self.run_worker(self._read(), exclusive=True, group="reading")

    async def _read(self) -> None:
        try:
            status = await self._in_thread(read_status, self._store)
        except Refusal as refusal:
            self.notice(f"The store cannot be read: {refusal}")
            return
        self._show(status)

    async def _in_thread(self, function: Any, *args: Any, **named: Any) -> Any:
        import asyncio

        return await asyncio.get_running_loop().run_in_executor(self._reader, lambda: function(*args, **named))

    def _show(self, status: Data) -> None:
        chosen = self._chosen()
        self._questions = status["questions"]["entries"] if status["questions"] else []
        table: DataTable[Text] = self.query_one(DataTable)
        table.clear()
        for row in self._questions:
            deadline = relative_time(row["deadline"]) if row["deadline"] else "none"
            table.add_row(*(Text(one_line(cell)) for cell in (row["from"], row["to"], deadline, row["text"])), key=row["entry_id"])
        kept = [number for number, row in enumerate(self._questions) if chosen and row["entry_id"] == chosen["entry_id"]]
        table.move_cursor(row=kept[0] if kept else 0)
        if chosen and not kept and chosen["entry_id"] != self._answered and self._questions:
            self._unnoticed = self._questions[0]["entry_id"]
        self._show_chosen()
        self.query_one("#rest", Static).update(_render_rest(status))

    def _chosen(self) -> Data | None:
        row = self.query_one(DataTable).cursor_row
        return self._questions[row] if 0 <= row < len(self._questions) else None

    def on_data_table_row_highlighted(self) -> None:
        self._unconfirmed = None
        self._show_chosen()

    def _show_chosen(self) -> None:
        row = self._chosen()
        self.query_one("#chosen", Static).update("No question waits for a person." if row is None else _render_question(row))

    def notice(self, text: str) -> None:
        self.query_one("#notice", Static).update(one_line(text))

    async def action_choose(self, number: int) -> None:
        """Give the answer with this number. It has to be given twice if it is dangerous, or if the question has just become another one."""
        row = self._chosen()
        offered = _offered(row) if row else []
        if row is None or number > len(offered):
            return
        if row["entry_id"] == self._unnoticed:
            self._unnoticed = ""
            self.notice(f"This is another question now: read it, then press {number} again.")
            return
        answer = offered[number - 1]
        if answer in row["dangerous"] and self._unconfirmed != (row["entry_id"], answer):
            self._unconfirmed = (row["entry_id"], answer)
            self.notice(f"{answer!r} cannot be taken back: press {number} again.")
            return
        if row["proposal"] is not None:
            await self._send(row, decision={"type": answer})
        else:
            await self._send(row, body=answer)

    def action_write(self) -> None:
        self._written_for = self._chosen()
        if self._written_for is not None:
            field = self.query_one(Input)
            field.display = True
            field.focus()

    def action_stop_writing(self) -> None:
        self.query_one(Input).display = False
        self.query_one(DataTable).focus()

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        row, text = self._written_for, event.value.strip()
        self.action_stop_writing()
        if row is not None and text:
            event.input.value = ""
            await self._send(row, body=text, comment=True)

    async def _send(self, row: Data, **answer: Any) -> None:
        self._unconfirmed = None
        self._answered = row["entry_id"]
        try:
            await self._in_thread(reply, self._store, row["entry_id"], person=self._person, **answer)
        except Refusal as refusal:
            self.notice(f"Not sent: {refusal}")
            return
        self.notice(f"Answered {row['from']}: stored, not yet seen.")
        await self._read()


def _offered(row: Data) -> list[str]:
    """Return the answers that have a key."""
    return [APPROVE, REJECT] if row["proposal"] is not None else row["choices"][:MAX_KEYS]


def _render_question(row: Data) -> str:
    keys = "   ".join(f"{number} {one_line(answer)}" for number, answer in enumerate(_offered(row), 1))
    proposal = f"\n{one_line(str(row['proposal'].get('text') or row['proposal']))}" if row["proposal"] else ""
    asked = relative_time(row["asked_at"])
    return f"{one_line(row['from'])} asks, {asked}: {one_line(row['text'])}{proposal}\n{keys or 'a: answer in words'}"


def _render_rest(status: Data) -> Text:
    """Return everything but the questions, as `inbox status` prints it."""
    from postroom.cli.inbox.status.views import VIEWS

    return Text.from_ansi(VIEWS["status"]({**status, "questions": None}))
