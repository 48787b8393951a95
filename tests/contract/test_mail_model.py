"""The mailbox against a small model of its machine: senders, sessions, policies, stale tokens, and time that passes unseen.

Each rule lets time pass first, so that a verb meets what has fallen due and nobody has carried out. It cannot find races; it
finds what nobody thought of in one process.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from postroom import mail
from postroom.core import clock as time
from postroom.core.errors import DeliveryLost, IdConflict, InvalidState, NotFound, Refusal
from postroom.store.interface import Store
from tests.conftest import ENGINES, Clock
from tests.contract import machines
from tests.contract.mail_data import LIVE, STATES, counts, dead, message

SECOND = time.MICROSECONDS_PER_SECOND
BOXES = ("red", "blue")
SENDERS = st.sampled_from(["ann", "bob"])
SESSIONS = st.sampled_from(BOXES)
TOKENS = st.sampled_from(["none", "none", "latest", "latest", "first", "invented"])
WHICH = st.sampled_from([0, 0, 0, 1, 2, 3, 4, 5, 6, 7])
EXACT = [0, 1, SECOND, 5 * SECOND, 10 * SECOND, 20 * SECOND, 30 * SECOND, 35 * SECOND]
PAUSES = st.just(0) | st.just(0) | st.sampled_from(EXACT) | st.integers(0, 100 * SECOND)
DATES = st.none() | st.sampled_from([-50, -3, 0, 1000])  # seconds from now
NEVER = 2**62


class Rules:
    """A session's policy, in microseconds."""

    def __init__(self) -> None:
        self.base, self.retries, self.timeout, self.life = 5 * SECOND, 3, 30 * SECOND, NEVER


class Letter:
    """One message, as the model knows it."""

    def __init__(self, msg_id: str, sender: str, session: str, created_at: int, rank: tuple[int, int], stored: int) -> None:
        self.msg_id, self.sender, self.session, self.created_at, self.rank = msg_id, sender, session, created_at, rank
        self.born = stored
        self.state = "pending"
        self.attempt = 0
        self.until = NEVER  # the end of its delivery, or of its wait for a retry
        self.ended = 0
        self.ending = ""  # how it ended, which is remembered when it is forgotten
        self.tokens: list[str] = []
        self.current: str | None = None  # the token that may speak for it
        self.steps = ["stored"]

    @property
    def live(self) -> bool:
        return self.state in LIVE

    def due(self, rules: Rules) -> int:
        return min(self.until, self.born + rules.life)

    def settle(self, now: int, rules: Rules) -> None:
        """All that happens by itself until now, in its order."""
        while self.live and self.due(rules) <= now:
            if self.born + rules.life <= self.until:
                self.end("expired", self.born + rules.life)
            elif self.state == "nacked":
                self.state, self.attempt, self.until = "pending", self.attempt + 1, NEVER
                self.steps.append("retried")
            else:
                self.current = None
                self.nack(self.until, rules)

    def nack(self, instant: int, rules: Rules) -> None:
        self.steps.append("nacked")
        if self.attempt >= rules.retries:
            self.end("dead_letter", instant)
        else:
            self.state, self.until = "nacked", instant + rules.base * 2**self.attempt

    def end(self, state: str, instant: int) -> None:
        self.state, self.ending, self.ended, self.until = state, state, instant, NEVER
        self.steps.append(state)


class MailMachine(RuleBasedStateMachine):
    """Each rule does a verb and says, from the model alone, what must come of it."""

    fresh: Callable[[str, Clock], Store]

    @initialize(posted=st.lists(st.tuples(SENDERS, SESSIONS, DATES), min_size=2, max_size=6))
    def open(self, posted: list[tuple[str, str, int | None]]) -> None:
        self.folder = tempfile.mkdtemp(prefix="postroom-model-")
        self.clock = Clock()
        self.store = type(self).fresh(self.folder, self.clock)
        self.letters: dict[str, Letter] = {}
        self.policies = {session: Rules() for session in BOXES}
        self.arrivals = 0
        for sender, session, date in posted:
            self.post(sender, session, date)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)

    # Expected results

    def passes(self, pause: int) -> None:
        self.clock.instant += pause
        for letter in self.letters.values():
            letter.settle(self.clock.instant, self.policies[letter.session])

    def rank(self, sender: str, session: str, created_at: int) -> tuple[int, int]:
        """Its place: its date, but none in the future, nor one before what the same sender has there already; then its arrival."""
        elders = [one.rank[0] for one in self.of(session, *LIVE) if one.sender == sender]
        self.arrivals += 1
        return max([min(created_at, self.clock.instant // SECOND), *elders]), self.arrivals

    def of(self, session: str, *states: str) -> list[Letter]:
        found = [one for one in self.letters.values() if one.session == session and one.state in states]
        return sorted(found, key=lambda one: one.rank)

    def dead(self, session: str) -> list[Letter]:
        """Oldest first, as they came into the mailbox."""
        return sorted(self.of(session, "dead_letter"), key=lambda one: one.rank[1])

    def next(self, session: str) -> Letter | None:
        """The first of the heads that are pending."""
        heads: dict[str, Letter] = {}
        for letter in self.of(session, *LIVE):
            heads.setdefault(letter.sender, letter)
        return next((one for one in heads.values() if one.state == "pending"), None)

    def pick(self, which: int, first: str = "in_flight") -> Letter:
        """Any letter; those of one state come first, for most of what can be done is done to them."""
        found = sorted(self.letters.values(), key=lambda one: one.state != first)
        return found[which % len(found)]

    def token(self, letter: Letter, choice: str) -> str | None:
        if choice == "none" or (choice in ("latest", "first") and not letter.tokens):
            return None
        return {"latest": letter.tokens and letter.tokens[-1], "first": letter.tokens and letter.tokens[0], "invented": "x"}[choice] or None

    def speaks(self, letter: Letter, token: str | None, *unchanged: str) -> tuple[type[Refusal], ...]:
        """How ack, nack or extend is refused, if it is; in the `unchanged` states it is taken and does nothing."""
        if token is not None and token != letter.current and letter.state not in ("purged", "forgotten"):
            return (DeliveryLost,)  # of what is gone, only how it ended is known
        state = letter.ending if letter.state == "forgotten" else letter.state
        return () if state in ("in_flight", *unchanged) else (InvalidState,)

    def expect(self, refusals: tuple[type[Refusal], ...], act: Callable[[], Any]) -> Any:
        if not refusals:
            return act()
        with pytest.raises(refusals):
            act()
        return None

    # Rules

    @precondition(lambda self: len(self.letters) < 10)
    @rule(sender=SENDERS, session=SESSIONS, date=DATES, pause=PAUSES)
    def enqueue(self, sender: str, session: str, date: int | None, pause: int) -> None:
        self.passes(pause)
        self.post(sender, session, date)

    def post(self, sender: str, session: str, date: int | None) -> None:
        created_at = self.clock.instant // SECOND + (date or 0)
        dated: dict[str, Any] = {} if date is None else {"created_at": created_at}
        told = mail.enqueue(self.store, message(sender=sender, to=session, **dated))
        assert told.queued
        assert told.msg_id not in self.letters
        rank = self.rank(sender, session, created_at)
        self.letters[told.msg_id] = Letter(told.msg_id, sender, session, created_at, rank, self.clock.instant)
        assert told.pending == len(self.of(session, "pending"))

    @precondition(lambda self: self.letters)
    @rule(which=WHICH, session=SESSIONS, payload=st.sampled_from(("hello", "other")), pause=PAUSES)
    def enqueue_again(self, which: int, session: str, payload: str, pause: int) -> None:
        self.passes(pause)
        letter = self.pick(which)
        same = (session, payload) == (letter.session, "hello")
        again = message(payload, sender=letter.sender, to=session, msg_id=letter.msg_id)
        told = self.expect(() if same else (IdConflict,), lambda: mail.enqueue(self.store, again))
        assert not same or (told.queued, told.pending) == (False, len(self.of(session, "pending")))

    @rule(session=SESSIONS, pause=PAUSES)
    def dequeue(self, session: str, pause: int) -> None:
        self.take(session, pause)

    def take(self, session: str, pause: int) -> Letter | None:
        self.passes(pause)
        letter = self.next(session)
        delivery = mail.dequeue(self.store, session)
        if letter is None or delivery is None:
            assert (delivery, letter) == (None, None)
            return None
        said = delivery.message
        assert (said.msg_id, said.sender, said.to, said.created_at, said.attempt) == (
            letter.msg_id, letter.sender, letter.session, letter.created_at, letter.attempt,
        )  # fmt: skip
        assert delivery.delivery_token not in [token for one in self.letters.values() for token in one.tokens]
        letter.state, letter.current = "in_flight", delivery.delivery_token
        letter.tokens.append(delivery.delivery_token)
        letter.until = self.clock.instant + self.policies[session].timeout
        letter.steps.append("offered")
        assert delivery.in_flight_until == time.format_stamp(letter.due(self.policies[session]))
        return letter

    @rule(session=SESSIONS, pauses=st.tuples(PAUSES, PAUSES), token=TOKENS)
    def dequeue_and_ack(self, session: str, pauses: tuple[int, int], token: str) -> None:
        if (letter := self.take(session, pauses[0])) is not None:
            self.settles(letter, "ack", token, pauses[1])

    @rule(session=SESSIONS, pauses=st.lists(PAUSES, min_size=8, max_size=8), token=TOKENS)
    def dequeue_and_nack_again_and_again(self, session: str, pauses: list[int], token: str) -> None:
        while pauses and (letter := self.take(session, pauses.pop())) is not None:
            self.settles(letter, "nack", token, pauses.pop())
            self.passes(max(0, letter.until - self.clock.instant) if letter.state == "nacked" else 0)

    @precondition(lambda self: self.letters)
    @rule(which=WHICH, verb=st.sampled_from(["ack", "nack"]), token=TOKENS, pause=PAUSES)
    def ack_or_nack(self, which: int, verb: str, token: str, pause: int) -> None:
        self.settles(self.pick(which), verb, token, pause)

    def settles(self, letter: Letter, verb: str, token: str, pause: int) -> None:
        self.passes(pause)
        given = self.token(letter, token)
        if verb == "ack":
            self.acks(letter, given)
        else:
            self.nacks(letter, given)

    def acks(self, letter: Letter, given: str | None) -> None:
        refusals = self.speaks(letter, given, "acked")
        if told := self.expect(refusals, lambda: mail.ack(self.store, letter.session, letter.msg_id, delivery_token=given)):
            assert (told.state, told.changed) == ("acked", letter.state == "in_flight")
            if told.changed:
                letter.end("acked", self.clock.instant)

    def nacks(self, letter: Letter, given: str | None) -> None:
        refusals = self.speaks(letter, given, "acked", "dead_letter")
        if told := self.expect(refusals, lambda: mail.nack(self.store, letter.session, letter.msg_id, "so", delivery_token=given)):
            assert told.changed == (letter.state == "in_flight")
            if told.changed:
                letter.nack(self.clock.instant, self.policies[letter.session])
            state, retry_at = ("nacked", time.format_stamp(letter.until)) if letter.state == "nacked" else (letter.ending, None)
            assert (told.state, told.retry_at) == (state, retry_at)
            self.passes(0)  # with no backoff it is due already

    @precondition(lambda self: self.letters)
    @rule(which=WHICH, token=TOKENS, seconds=st.none() | st.sampled_from([1, 60]), pause=PAUSES)
    def extend(self, which: int, token: str, seconds: int | None, pause: int) -> None:
        self.passes(pause)
        letter = self.pick(which)
        given = self.token(letter, token)
        act = lambda: mail.extend(self.store, letter.session, letter.msg_id, seconds=seconds, delivery_token=given)  # noqa: E731
        if told := self.expect(self.speaks(letter, given), act):
            rules = self.policies[letter.session]
            letter.until = self.clock.instant + (rules.timeout if seconds is None else seconds * SECOND)
            letter.steps.append("extended")
            assert told.in_flight_until == time.format_stamp(letter.due(rules))

    @precondition(lambda self: self.letters)
    @rule(which=WHICH, verb=st.sampled_from([mail.ack, mail.nack, mail.extend]), pause=PAUSES)
    def speak_for_another_mailbox(self, which: int, verb: Callable[..., object], pause: int) -> None:
        self.passes(pause)
        letter = self.pick(which)
        with pytest.raises(NotFound):
            verb(self.store, next(one for one in BOXES if one != letter.session), letter.msg_id)

    @rule(session=SESSIONS, kind=st.sampled_from(["live", "dead", "neither"]), pause=PAUSES)
    def purge(self, session: str, kind: str, pause: int) -> None:
        self.passes(pause)
        gone = {"live": self.of(session, *LIVE), "dead": self.of(session, "dead_letter"), "neither": []}[kind]
        if kind == "live":
            assert mail.purge(self.store, session) == len(gone)
        if kind == "dead":
            assert mail.purge_dead_letter(self.store, session) == len(gone)
        for letter in gone:
            letter.end("purged", self.clock.instant)

    @precondition(lambda self: self.letters)
    @rule(which=WHICH, one=st.booleans(), pause=PAUSES)
    def retry_dead_letter(self, which: int, one: bool, pause: int) -> None:
        self.passes(pause)
        chosen = self.pick(which, "dead_letter")
        if one and chosen.state != "dead_letter":
            with pytest.raises(InvalidState):
                mail.retry_dead_letter(self.store, chosen.session, msg_id=chosen.msg_id)
            return
        again = [chosen] if one else self.dead(chosen.session)
        assert mail.retry_dead_letter(self.store, chosen.session, msg_id=chosen.msg_id if one else None) == len(again)
        for letter in again:
            letter.rank = self.rank(letter.sender, letter.session, letter.created_at)
            letter.state, letter.attempt, letter.born, letter.current = "pending", 0, self.clock.instant, None
            letter.steps.append("requeued")

    @rule(
        session=SESSIONS,
        base=st.none() | st.sampled_from([0, 1, 5]),
        retries=st.none() | st.sampled_from([0, 1, 2]),
        timeout=st.none() | st.sampled_from([2, 30]),
        life=st.none() | st.sampled_from([0, 0, 20, 100]),
        pause=PAUSES,
    )
    def set_policy(self, session: str, base: int | None, retries: int | None, timeout: int | None, life: int | None, pause: int) -> None:
        self.passes(pause)
        rules = self.policies[session]
        rules.base = rules.base if base is None else base * SECOND
        rules.retries = rules.retries if retries is None else retries
        rules.timeout = rules.timeout if timeout is None else timeout * SECOND
        rules.life = rules.life if life is None else life * SECOND or NEVER
        told = mail.set_policy(
            self.store, session, base_backoff_secs=base, max_retries=retries, inflight_timeout_secs=timeout, ttl_secs=life
        )
        assert (told.base_backoff_secs * SECOND, told.max_retries, told.inflight_timeout_secs * SECOND) == (
            rules.base, rules.retries, rules.timeout,
        )  # fmt: skip
        self.passes(0)

    @rule(keep=st.none() | st.sampled_from([1]), pause=PAUSES | st.just(2 * 86_400 * SECOND))
    def sweep(self, keep: int | None, pause: int) -> None:
        self.passes(pause)
        told = mail.sweep(self.store, keep_days=keep)
        ended = [one for one in self.letters.values() if one.state in ("acked", "expired")]
        old = [one for one in ended if keep is not None and one.ended < self.clock.instant - keep * 86_400 * SECOND]
        assert told.forgotten == len(old)
        for letter in old:
            letter.state = "forgotten"
        assert mail.sweep(self.store, keep_days=keep).to_json() == dict.fromkeys(told.to_json(), 0)

    @rule(pause=PAUSES)
    def look_at_every_receipt(self, pause: int) -> None:
        self.passes(pause)
        for letter in self.letters.values():
            told = mail.show(self.store, letter.msg_id)
            assert told.state == letter.state
            if letter.state == "forgotten":
                continue
            assert [step.step for step in told.steps] == letter.steps
            if letter.state != "purged":
                assert told.message is not None
                assert (told.message.created_at, told.message.attempt) == (letter.created_at, letter.attempt)

    # Invariants

    @invariant()
    def the_counts_are_the_models(self) -> None:
        if not hasattr(self, "store"):
            return
        expected = {session: {state: len(self.of(session, state)) for state in STATES} for session in BOXES}
        assert counts(self.store) == {session: numbers for session, numbers in expected.items() if any(numbers.values())}

    @invariant()
    def what_waits_is_what_the_model_has_in_its_order_and_nothing_is_in_two_states(self) -> None:
        if not hasattr(self, "store"):
            return
        for session in BOXES:
            found = mail.peek(self.store, session)
            live, rules = self.of(session, *LIVE), self.policies[session]
            assert [(one.msg_id, one.state, one.attempt, one.due_at) for one in found.messages] == [
                (one.msg_id, one.state, one.attempt, None if one.due(rules) >= NEVER else time.format_stamp(one.due(rules))) for one in live
            ]
            assert found.total == len(live)
            corpses = dead(self.store, session)
            assert corpses == [one.msg_id for one in self.dead(session)]
            assert not set(corpses) & {one.msg_id for one in found.messages}
            busy = [one.sender for one in found.messages if one.state != "pending"]
            assert len(busy) == len(set(busy))  # of a pair at most one is on its way


@pytest.mark.timeout(600)  # hundreds of examples: the default is too short on a loaded machine
@pytest.mark.parametrize("name", ENGINES)
def test_mailboxes_follow_the_model(name: str, request: pytest.FixtureRequest) -> None:
    machines.run(MailMachine, name, request)
