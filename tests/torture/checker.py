"""The checker: proves the promises from the histories of the actors and the rows of the store, or shows a short history that breaks one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from tests.torture.history import ESCAPED, NEVER, OK, REFUSED, Operation, select
from tests.torture.ownership import find_double_owners
from tests.torture.pruning_rights import PruningRights
from tests.torture.snapshot import Row, StoreSnapshot
from tests.torture.verbs import ATLAS, BUILDER

LOST, DOUBLED, STRANDED, WEDGED = "lost", "doubled", "stranded", "wedged"
DISHONEST, NAGGED, FORGED, ESCAPE, DAMAGED = "dishonest", "nagged", "forged", "escaped", "damaged"
UNPROVED = "unproved"
KINDS = (LOST, DOUBLED, STRANDED, WEDGED, DISHONEST, NAGGED, FORGED, ESCAPE, DAMAGED, UNPROVED)
# A run proves nothing about a verb of which nothing was accepted.
NEEDED = (
    *("work.send", "work.take", "work.update", "work.done", "work.watch", "mail.enqueue", "mail.dequeue", "mail.ack"),
    *("tasks.submit", "tasks.accept", "tasks.begin_sheet", "tasks.complete", "queues.push", "queues.pop", "queues.ack"),
    *("people.push", "people.ask", "people.reply", "people.mark_read", "people.wait_answer"),
    *("store.prune", "store.backup"),
)
CURSOR_EXPIRED = "cursor_expired"
OPEN_THREADS = ("pending", "claimed", "in_progress", "blocked")


@dataclass
class Violation:
    """One broken promise, and the history that shows it."""

    kind: str
    text: str
    history: list[Operation] = field(default_factory=list)

    def describe(self) -> str:
        epoch = min((operation.start for operation in self.history), default=0)
        return "\n".join([f"{self.kind}: {self.text}", *(f"    {operation.describe(epoch)}" for operation in self.history)])


def check(history: list[Operation], snapshot: StoreSnapshot) -> list[Violation]:
    """Return every broken promise, each kind in a fixed order."""
    found: list[Violation] = []
    for check_promise in (
        check_kept,
        check_owners,
        check_repeats,
        check_mail_order,
        check_stranded,
        check_refusals,
        check_words,
        check_watchers,
        check_expired_cursors,
        check_text,
        check_mirrors,
        check_escapes,
    ):
        found += check_promise(history, snapshot)
    return found + [Violation(DAMAGED, defect) for defect in snapshot.defects]


# 1. Accepted is kept


def check_kept(history: list[Operation], snapshot: StoreSnapshot) -> Iterator[Violation]:
    """Every answer "done" has its row, with the text that was sent, unless a prune may have removed it."""
    return find_losses(history, snapshot, PruningRights(history, snapshot))


def find_losses(operations: Iterable[Operation], snapshot: StoreSnapshot, rights: PruningRights) -> Iterator[Violation]:
    for operation in operations:
        if operation.ok:
            problem = _find_loss(operation, snapshot, rights)
            if problem and not rights.cover(operation):
                yield Violation(LOST, problem, [operation])


def _find_loss(operation: Operation, snapshot: StoreSnapshot, rights: PruningRights) -> str:
    name = operation.name
    if name in ("work.send", "work.update", "work.done"):
        return _compare(snapshot.index("messages", "message_id").get(operation.get("message")), "body", operation, "message")
    if name == "mail.enqueue":
        return _compare(snapshot.index("deliveries", "msg_id").get(operation.get("message")), "payload", operation, "message", "payload")
    if name == "tasks.submit":
        return _compare(snapshot.index("tasks", "task_id").get(operation.get("task")), "description", operation, "task")
    if name in ("people.push", "people.ask"):
        if rights.may_be_deleted(operation.get("entry")):
            return ""
        return _compare(snapshot.index("entries", "id").get(operation.get("entry")), "comments", operation, "entry")
    if name == "queues.push":
        return _find_lost_events(operation, snapshot, rights)
    return _find_lost_end(operation, snapshot)


def _compare(row: Row | None, column: str, operation: Operation, fact: str, sent: str = "body") -> str:
    if row is None:
        return f"{operation.name} was accepted, and {fact} {operation.get(fact)} is not in the store"
    if row[column].strip() != operation.facts[sent].strip():
        return f"the text of {fact} {operation.get(fact)} is not the one that was sent"
    return ""


def _find_lost_events(operation: Operation, snapshot: StoreSnapshot, rights: PruningRights) -> str:
    stored = snapshot.index_queue()
    for number, content in zip(operation.get("ids"), operation.facts["contents"]):
        is_pruned = number not in stored and rights.cover_event(number, operation)
        if not is_pruned and (number not in stored or stored[number]["content"] != content):
            return f"event {number} was accepted, and is not in the queue as it was pushed"
    return ""


# The ends that an answer promises: the table, its key, the column that says so, and its value.
_ENDS = {
    "work.done": ("threads", "thread_id", "thread", "status", "done"),
    "mail.ack": ("deliveries", "msg_id", "message", "state", "acked"),
    "tasks.complete": ("tasks", "task_id", "task", "status", "completed"),
    "tasks.fail": ("tasks", "task_id", "task", "status", "failed"),
}


def _find_lost_end(operation: Operation, snapshot: StoreSnapshot) -> str:
    if operation.name == "people.delete":
        return (
            f"entry {operation.get('entry')} was deleted, and is there" if operation.get("entry") in snapshot.index("entries", "id") else ""
        )
    if operation.name == "queues.ack" and snapshot.queue_progress.get(operation.facts["consumer"], 0) < operation.facts["last"]:
        return f"{operation.facts['consumer']} acknowledged up to {operation.facts['last']}, and its progress is lower"
    if operation.name not in _ENDS:
        return ""
    table, key, fact, column, value = _ENDS[operation.name]
    row = snapshot.index(table, key).get(operation.facts[fact])
    return (
        ""
        if row is not None and row[column] == value
        else f"{operation.name} was accepted, and {fact} {operation.facts[fact]} is not {value}"
    )


# 2. One owner, and nothing twice


def check_owners(history: list[Operation], snapshot: StoreSnapshot, judged: Container[str] | None = None) -> Iterator[Violation]:
    """Every thread, message and task has one owner at a time. `judged`: only these."""
    for resource, operations in find_double_owners(history, judged):
        yield Violation(DOUBLED, f"no order of these answers gives {resource} to one owner at a time", operations)


def check_repeats(history: list[Operation], snapshot: StoreSnapshot) -> Iterator[Violation]:
    """A text that was sent once, or again with the same key, is there once. Every ended task has one result."""
    texts = Counter(row["body"] for row in snapshot.rows("messages") if row["body"])
    texts += Counter(row["content"] for row in snapshot.queue_events)
    texts += Counter(row["comments"] for row in snapshot.rows("entries"))
    twice = {text for text, count in texts.items() if count > 1}
    for text in sorted(twice):
        senders = [operation for operation in history if operation.facts.get("body") == text or text in operation.facts.get("contents", ())]
        yield Violation(DOUBLED, f"a text that was sent once is stored {texts[text]} times", senders)
    yield from _find_used_again(history)
    rights = PruningRights(history, snapshot)
    results = Counter(row["answers"] for row in snapshot.rows("tasks") if row["kind"] == "result")
    for row in snapshot.rows("tasks"):
        count = results[row["task_id"]]
        if row["kind"] == "task" and row["ended_at"] and count != 1 and not (count == 0 and rights.cover_result(row["task_id"])):
            text = f"task {row['task_id']} has ended, and has {count} results"
            yield Violation(DOUBLED if count else LOST, text, _about(history, row["task_id"]))


def _find_used_again(history: list[Operation]) -> Iterator[Violation]:
    """The key of a message stands for one message, and the id of a mailbox message for one delivery, also after they were removed."""
    uses: dict[tuple[str, str], list[Operation]] = defaultdict(list)
    for operation in select(history, "work.send", "mail.enqueue"):
        if operation.ok and (operation.name == "work.send" or operation.get("queued")):
            fact = "key" if operation.name == "work.send" else "message"
            uses[operation.name, operation.facts[fact]].append(operation)
    for (name, used), operations in uses.items():
        if len({operation.get("thread") or number for number, operation in enumerate(operations)}) > 1:
            yield Violation(DOUBLED, f"{name} accepted {used} as new a second time", operations)


def check_mail_order(history: list[Operation], snapshot: StoreSnapshot) -> Iterator[Violation]:
    """While a message of a pair was not acked, no later one of the pair was delivered."""
    acks = {operation.facts["message"]: operation for operation in select(history, "mail.ack") if operation.get("changed")}
    first: dict[str, Operation] = {}
    for operation in select(history, "mail.dequeue"):
        if operation.ok and operation.get("message"):
            first.setdefault(operation.get("message"), operation)
    pairs: dict[tuple[str, str], list[Operation]] = defaultdict(list)
    for operation in select(history, "mail.enqueue"):
        if operation.ok and operation.get("queued"):
            pairs[operation.facts["sender"], operation.facts["box"]].append(operation)
    for sent in pairs.values():
        for earlier, later in pairwise(sent):
            ack, delivered = acks.get(earlier.facts["message"]), first.get(later.facts["message"])
            if ack is not None and delivered is not None and delivered.end < ack.start:
                yield Violation(
                    DOUBLED, "a message was delivered before an earlier one of its sender had ended", [earlier, later, delivered, ack]
                )


# 3. Nothing is stranded


def check_stranded(history: list[Operation], snapshot: StoreSnapshot) -> Iterator[Violation]:
    """After all leases ran out and honest workers took what they could, nothing is open."""
    for row in snapshot.rows("threads"):
        if row["status"] in OPEN_THREADS:
            yield Violation(STRANDED, f"thread {row['thread_id']} is {row['status']}", _about(history, row["thread_id"]))
    for row in snapshot.rows("deliveries"):
        if row["ended_at"] is None:
            yield Violation(STRANDED, f"message {row['msg_id']} is {row['state']}", _about(history, row["msg_id"]))
    for row in snapshot.rows("tasks"):
        if row["is_open"]:
            text = f"{row['kind']} {row['task_id']} is {row['status']} in job {row['target_job_id']}"
            yield Violation(STRANDED, text, _about(history, row["task_id"]))
    head = max((row["id"] for row in snapshot.queue_events), default=0)
    for consumer, progress in snapshot.queue_progress.items():
        if progress < head:
            yield Violation(STRANDED, f"{consumer} has read up to {progress} of {head}")


# 4. Honest words


def check_refusals(history: list[Operation], snapshot: StoreSnapshot) -> Iterator[Violation]:
    """A text that was refused is not stored, unless another attempt with the same text was not."""
    accepted = {text for operation in history if operation.outcome != REFUSED for text in texts_of(operation)}
    stored = read_stored_texts(snapshot)
    for operation in history:
        if operation.outcome == REFUSED and any(text in stored and text not in accepted for text in texts_of(operation)):
            yield Violation(DISHONEST, f"{operation.name} was refused, and its text is stored", [operation])


def read_stored_texts(snapshot: StoreSnapshot) -> set[str]:
    """Return every text that somebody sent and that is stored, without the space around it, which the text of an entry loses."""
    stored = {row["body"] for row in snapshot.rows("messages")} | {row["payload"] for row in snapshot.rows("deliveries")}
    stored |= {row["description"] for row in snapshot.rows("tasks")} | {row["comments"] for row in snapshot.rows("entries")}
    stored |= {row["content"] for row in snapshot.queue_events}
    return {text.strip() for text in stored}


def texts_of(operation: Operation) -> list[str]:
    texts = [operation.facts[name] for name in ("body", "payload") if name in operation.facts]
    return [text.strip() for text in [*texts, *operation.facts.get("contents", ())] if text not in ("yes", "no")]


def check_words(history: list[Operation], snapshot: StoreSnapshot) -> Iterator[Violation]:
    """Each change in the store was made by an actor: read, answered, acked, done, completed, collected."""
    read = _called(history, "entry", "people.mark_read", "people.reply")
    answers = defaultdict(set)
    for operation in select(history, "people.reply"):
        answers[operation.facts["entry"]].add(operation.facts["body"])
    for row in snapshot.rows("entries"):
        if row["read_at"] is not None and row["id"] not in read:
            yield Violation(DISHONEST, f"entry {row['id']} is read, and nobody read it", _about(history, row["id"]))
    for row in snapshot.rows("asks"):
        if row["state"] == "answered" and row["answer"] not in answers[row["entry_id"]]:
            yield Violation(DISHONEST, f"question {row['entry_id']} is answered, and nobody answered so", _about(history, row["entry_id"]))
    for operation in select(history, "people.wait_answer"):
        if operation.get("state") == "answered" and operation.get("answer") not in answers[operation.facts["entry"]]:
            yield Violation(DISHONEST, "an agent was told an answer that nobody gave", _about(history, operation.facts["entry"]))
    for verb, (table, key, fact, column, value) in _ENDS.items():
        called = _called(history, fact, verb)
        for row in snapshot.rows(table):
            by_itself = verb == "tasks.fail" or row.get("kind") == "result" or row.get("session") == ATLAS
            if row[column] == value and row[key] not in called and not by_itself:
                yield Violation(DISHONEST, f"{fact} {row[key]} is {value}, and nobody called {verb}", _about(history, row[key]))


def _called(history: list[Operation], fact: str, *names: str) -> set[str]:
    return {operation.facts[fact] for operation in select(history, *names)}


# 5. Text is data


def check_text(history: list[Operation], snapshot: StoreSnapshot) -> Iterator[Violation]:
    """No line of a sheet is one that a task's description tried to write."""
    for operation in select(history, "tasks.begin_sheet"):
        lines = str(operation.get("text") or "").splitlines()
        if any(line.startswith(("@complete everything", "# PENDING TASKS", "</script>")) for line in lines[1:]):
            yield Violation(FORGED, "a description wrote a line of a sheet", [operation])


# 7. Nobody is nagged, and nobody misses anything


def check_watchers(history: list[Operation], snapshot: StoreSnapshot) -> Iterator[Violation]:
    """A watcher that stored its cursor is not told again what is before it, and is told everything of its threads.

    It may also be told that its cursor has expired, and where to go on: then it knows that it was not told what is between.
    """
    watched: dict[str, list[Operation]] = defaultdict(list)
    gaps: dict[str, list[Operation]] = defaultdict(list)
    for operation in select(history, "work.watch"):
        if operation.ok:
            watched[operation.facts["watcher"]].append(operation)
        elif operation.code == CURSOR_EXPIRED:
            gaps[operation.facts["watcher"]].append(operation)
    wanted = {row["event_id"] for row in snapshot.rows("events") if row["thread_id"] and row["source"] == BUILDER}
    wanted |= {operation.get("event") for operation in select(history, "work.update", "work.done") if operation.ok}
    for watcher, operations in watched.items():
        for operation in operations:
            if any(event <= operation.facts["cursor"] for event in operation.get("events")):
                yield Violation(NAGGED, f"{watcher} was told an event that its cursor had passed", [operation])
        told = {event for operation in operations for event in operation.get("events")}
        missed = sorted(event for event in wanted - told if not any(_is_in_gap(event, gap) for gap in gaps[watcher]))
        if missed:
            around = [operation for operation in operations if operation.facts["cursor"] < missed[0] <= operation.get("next")]
            yield Violation(LOST, f"{watcher} was never told {len(missed)} events, the first is {missed[0]}", around)


def _is_in_gap(event: int, expired: Operation) -> bool:
    return bool(expired.facts["cursor"] < event <= expired.get("next"))


def check_expired_cursors(history: list[Operation], snapshot: StoreSnapshot) -> Iterator[Violation]:
    """A cursor expires only over events that are old enough for a prune. With a clock that jumped, no age is certain."""
    rights = PruningRights(history, snapshot)
    posted = [operation for operation in select(history, "work.send", "work.update", "work.done") if operation.ok]
    jumps = select(history, "clock.jump")
    for operation in select(history, "work.watch"):
        if operation.code != CURSOR_EXPIRED or any(jump.start < operation.end for jump in jumps):
            continue
        young = [post for post in posted if _is_in_gap(post.get("event"), operation) and not rights.is_old(post, until=operation.end)]
        if young:
            yield Violation(LOST, "a cursor expired over an event that no prune may have removed", [young[0], operation])


# Mirrors, escapes


def check_mirrors(history: list[Operation], snapshot: StoreSnapshot) -> Iterator[Violation]:
    """events.jsonl has each event of the queue once, in order; entries.jsonl has each entry once.

    A prune removes lines before rows. If it was killed between, the oldest lines are missing until the next prune.
    """
    if snapshot.queue_lines is not None:
        lines, rows = (
            [None if line is None else line.get("id") for line in snapshot.queue_lines],
            [row["id"] for row in snapshot.queue_events],
        )
        missing = rows[: len(rows) - len(lines)] if rows[len(rows) - len(lines) :] == lines else rows
        pushes = {number: operation for operation in select(history, "queues.push") if operation.ok for number in operation.get("ids")}
        rights = PruningRights(history, snapshot)
        if lines != rows and not all(number in pushes and rights.cover_event(number, pushes[number]) for number in missing):
            yield Violation(DAMAGED, f"events.jsonl has {len(lines)} lines, and the queue {len(rows)} events; they differ")
    if snapshot.entry_lines is not None:
        told = Counter(line.get("id") for line in snapshot.entry_lines if line is not None)  # a torn line stays, as that of others
        stored = Counter(row["id"] for row in snapshot.rows("entries") if row["section"] in ("inbox", "part"))
        if told != stored:
            text = f"entries.jsonl lacks {sorted((stored - told).elements())[:3]} and has too much {list((told - stored).elements())[:3]}"
            yield Violation(DAMAGED, text)


def check_used(history: list[Operation]) -> list[Violation]:
    """Return the verbs of which nothing was accepted."""
    accepted = {operation.name for operation in history if operation.ok}
    return [Violation(UNPROVED, f"no {name} was accepted: the run proves nothing about it") for name in NEEDED if name not in accepted]


def check_escapes(history: list[Operation], snapshot: StoreSnapshot) -> Iterator[Violation]:
    for operation in history:
        if operation.outcome == ESCAPED:
            yield Violation(ESCAPE, f"{operation.name} raised {operation.get('error')}", [operation])


def _about(history: Iterable[Operation], subject: str) -> list[Operation]:
    """Return the operations that name a subject."""
    return [
        operation
        for operation in history
        if subject in operation.facts.values() or subject in operation.result.values() or subject in (operation.result.get("tasks") or ())
    ]


def count_accepted(history: Iterable[Operation]) -> int:
    return sum(operation.outcome == OK for operation in history)


def count_unanswered(history: Iterable[Operation]) -> int:
    return sum(operation.end == NEVER for operation in history)
