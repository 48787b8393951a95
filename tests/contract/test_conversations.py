"""The conversations of a resident agent: recorded before a prompt, found again, replaced, and forgotten."""

from __future__ import annotations

import pytest

from postroom import people
from postroom.core.errors import InvalidInput
from postroom.store.interface import Store


def test_a_conversation_is_kept_for_each_agent_and_thread(store: Store) -> None:
    kept = people.keep_conversation(store, "thr_1", agent="ada", program="gemini", session="s-1", turns=1, prompted_event_id=7)
    people.keep_conversation(store, "", agent="ada", program="gemini", session="s-mail", turns=3)
    people.keep_conversation(store, "thr_1", agent="bob", program="codex", session="s-2", turns=1)
    assert people.find_conversation(store, "thr_1", agent="ada") == kept
    assert [one.session for one in people.list_conversations(store, agent="ada").conversations] == ["s-mail", "s-1"]
    again = people.keep_conversation(store, "thr_1", agent="ada", program="gemini", session="s-1", turns=2, prompted_event_id=9)
    assert people.find_conversation(store, "thr_1", agent="ada") == again
    people.end_conversation(store, "thr_1", agent="ada")
    assert people.find_conversation(store, "thr_1", agent="ada") is None
    assert people.find_conversation(store, "thr_1", agent="bob") is not None


def test_a_session_with_too_long_a_name_is_refused(store: Store) -> None:
    with pytest.raises(InvalidInput):
        people.keep_conversation(store, "thr_1", agent="ada", program="gemini", session="s" * 5000, turns=1)
    assert people.list_conversations(store, agent="ada").conversations == ()
