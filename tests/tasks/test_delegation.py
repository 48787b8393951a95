"""`@delegate name: text` in what an agent says: what fires, what does not, and what is said back when it was meant but not understood."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from postroom.tasks.a2a.delegation import parse_answers, parse_delegations

NAME = re.compile(r"(?!\.)[\w.-]{1,200}(?<!\.)")
LINE = "@delegate forge: build it"

# The pieces of which lines are made that could be taken for a delegation, and of those around them.
pieces = [
    "@delegate",
    "@delegate ",
    "@delegate forge:",
    "@delegate a.b-c: do",
    "@Delegate x: y",
    " ",
    "  ",
    "    ",
    "\t",
    "\n",
    "\n\n",
    "\r\n",
]
pieces += ["```", "~~~", "````", "`", "``", ">", "> ", ":", ".", "-", "x", "forge", "# ", "* ", "1. ", "\\", "é", "<!--"]
markdown = st.lists(st.sampled_from(pieces), max_size=25).map("".join)

ends = st.sampled_from("abcXYZ019_-")
names = st.tuples(ends, st.text("abcXYZ019_-.", max_size=10), ends).map("".join) | ends
sentences = (
    st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=20).map(str.strip).filter(bool)
)
bodies = st.tuples(sentences, st.lists(sentences | st.just(""), max_size=4), sentences | st.just(None)).map(
    lambda parts: "\n".join([parts[0], *parts[1], parts[2]] if parts[2] else [parts[0]])
)


def _understood(text: str) -> list[tuple[str, str, int]]:
    return [(one.agent, one.text, one.line) for one in parse_delegations(text).understood]


def _misunderstood(text: str) -> list[int]:
    return [one.line for one in parse_delegations(text).misunderstood]


def _written(agent: str, text: str) -> str:
    """A delegation as an agent would write it, its further lines indented."""
    first, *rest = text.split("\n")
    return "\n".join([f"@delegate {agent}: {first}", *(f"  {line}" if line else "" for line in rest)])


def _nothing(text: str) -> None:
    """Nothing in it is a delegation, nor taken for a failed one."""
    assert (_understood(text), _misunderstood(text)) == ([], [])


def test_a_line_is_a_delegation() -> None:
    assert _understood(LINE) == [("forge", "build it", 1)]
    assert _misunderstood(LINE) == []


@pytest.mark.parametrize("text", ["", "\n", "   ", "No delegation here.\nNor here: @delegate forge: build it", "delegate forge: build it"])
def test_without_one_there_is_nothing(text: str) -> None:
    _nothing(text)


@pytest.mark.parametrize("name", ["a", "7", "code-reviewer", "team.forge", "a_b", "a.b-c_d.9", "-a-", "_a", "Forge", "x" * 200])
def test_a_name_has_letters_digits_dots_hyphens_and_underscores(name: str) -> None:
    assert _understood(f"@delegate {name}: build it") == [(name, "build it", 1)]


@pytest.mark.parametrize("indent", ["", " ", "  ", "   "])
def test_up_to_three_spaces_may_stand_before_it(indent: str) -> None:
    assert _understood(f"Hello.\n\n{indent}{LINE}") == [("forge", "build it", 3)]


@pytest.mark.parametrize("indent", ["    ", "     ", "        ", "\t", " \t", "   \t"])
def test_what_is_indented_like_code_does_not_fire(indent: str) -> None:
    _nothing(f"{indent}{LINE}")
    _nothing(f"Like this:\n\n{indent}{LINE}\n\nDone.")


@pytest.mark.parametrize(
    "line",
    [
        "@Delegate forge: build it",
        "- @delegate forge: build it",
        "* @delegate forge: build it",
        "12. @DELEGATE forge: build it",
        "- [x] @delegate forge: build it",
        "* [ ] **@delegate forge**: build it",
        "**@delegate forge:** build it",
        "**@delegate forge**: build it",
        "**@delegate** forge: build it",
        "- **@delegate forge: build it**",
        "*@delegate `forge`: build it*",
        "@delegate [forge]: build it",
        "@delegate forge\uff1a build it",
    ],
)
def test_what_models_write_is_understood(line: str) -> None:
    assert _understood(line) == [("forge", "build it", 1)]


@pytest.mark.parametrize("fence", ["```", "~~~", "````", "```text", "```markdown"])
def test_a_fence_that_holds_nothing_but_answers_is_read(fence: str) -> None:
    close = re.sub(r"[^`~]", "", fence)
    text = f"My answers:\n\n{fence}\n{LINE}\n  with care\n\n@complete 5f0e: done\n{close}\nBye."
    answers = parse_answers(text)
    assert [(one.verb, one.name, one.text, one.line) for one in answers.understood] == [
        ("delegate", "forge", "build it\nwith care", 4),
        ("complete", "5f0e", "done", 7),
    ]


@pytest.mark.parametrize(
    ("line", "verb", "name", "text"),
    [
        ("@complete 5f0e7c7e: Fine.", "complete", "5f0e7c7e", "Fine."),
        ("- **@Complete Task 5f0e7c7e:** Fine.", "complete", "5f0e7c7e", "Fine."),
        ("@fail `5f0e`: there is no module X", "fail", "5f0e", "there is no module X"),
        ('@complete 5f0e: {"review": "a: b"}', "complete", "5f0e", '{"review": "a: b"}'),
    ],
)
def test_tasks_are_completed_and_failed_by_a_line(line: str, verb: str, name: str, text: str) -> None:
    assert parse_answers(line).understood == ((verb, name, text, 1),)


@pytest.mark.parametrize("line", ["@complete", "@complete 5f0e", "@fail 5f0e:", "@complete a/b: x"])
def test_an_answer_that_is_malformed_is_said_back(line: str) -> None:
    (wrong,) = parse_answers(line).misunderstood
    assert (wrong.line, wrong.text) == (1, line)


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("`@complete 5f0e: done`", 1, "outside of code"),
        ("```python\n@fail 5f0e: no\n```", 2, "outside of code"),
        ("### @Complete 5f0e: done", 1, "outside of code"),
        ("    @delegate forge: build it", 1, "outside of code"),
        ("@completed 5f0e: done", 1, "begins with @complete, @fail or @delegate"),
        ("- **@done 5f0e:** done", 1, "begins with @complete, @fail or @delegate"),
        ("- [x] @done 5f0e: done", 1, "begins with @complete, @fail or @delegate"),
        ("\u2705 @complete 5f0e: done", 1, "begins its line"),
        ("Tests pass, so @complete 5f0e: done", 1, "begins its line"),
    ],
)
def test_what_only_looks_like_an_answer_is_said_back_and_is_none(text: str, line: int, why: str) -> None:
    answers = parse_answers(text)
    assert (answers.understood, answers.misunderstood) == ((), ())
    assert [(one.line, why in one.why) for one in answers.lookalikes] == [(line, True)]


@pytest.mark.parametrize(
    "text",
    [
        "Thanks, @forge: fine",
        "> @complete 5f0e: quoted",
        "@forge thanks a lot",
        "@forge, see a: b",
        "```\n@app.route foo: x\n```",
        "a@b.org c: d",
        "I used @complete and @fail: both work",
        "Look at me@complete.org now: it is there",
        '```\n{"example": "@complete 5f0e: x"}\n```',
        "> He wrote: @complete 5f0e: x",
    ],
)
def test_a_mention_is_not_taken_for_an_answer(text: str) -> None:
    assert parse_answers(text) == ((), (), ())


def test_what_looks_like_an_answer_inside_of_one_is_its_text() -> None:
    assert parse_answers("@complete 5f0e: like this\n  > @fail 5f0e: no").lookalikes == ()


@pytest.mark.parametrize("line", ["@delegated forge: x", "@delegates", "@delegate-to forge: x"])
def test_another_word_is_not_the_word(line: str) -> None:
    _nothing(line)


@pytest.mark.parametrize("before", ["please ", "# ", "x", "\\", "@", "(", "-", "1) - "])
def test_it_fires_at_the_start_of_a_line_only(before: str) -> None:
    _nothing(before + LINE)


def test_several_are_told_apart_in_their_order_with_their_lines() -> None:
    text = "Help me.\n\n@delegate forge: build it\n@delegate canyon: review it: all of it\n\nThanks.\n@delegate forge: ship it\n"
    assert _understood(text) == [("forge", "build it", 3), ("canyon", "review it: all of it", 4), ("forge", "ship it", 7)]


@pytest.mark.parametrize("indent", ["  ", "   ", "    ", "\t", "        "])
def test_indented_lines_belong_to_it(indent: str) -> None:
    text = f"@delegate forge: build it\n{indent}with care\n\n{indent}and tests\n\n\nThanks.\n@delegate canyon: review it"
    assert _understood(text) == [("forge", "build it\nwith care\n\nand tests", 1), ("canyon", "review it", 8)]


def test_its_lines_keep_what_is_inside_them() -> None:
    assert _understood("@delegate forge: sort\ta table\n  a\tb  c\n  d\te") == [("forge", "sort\ta table\na\tb  c\nd\te", 1)]


@pytest.mark.parametrize("end", ["", "\n", "\n\n\n", "\n  \n", "\n    \n\t\n"])
def test_blank_lines_at_its_end_are_dropped(end: str) -> None:
    assert _understood(f"@delegate forge: build it\n  with care{end}") == [("forge", "build it\nwith care", 1)]
    assert _understood(f"@delegate forge: build it{end}") == [("forge", "build it", 1)]


@pytest.mark.parametrize("line", ["Thanks.", " Thanks.", "> Thanks.", "- Thanks."])
def test_a_line_that_is_not_indented_ends_it_after_an_empty_line(line: str) -> None:
    assert _understood(f"@delegate forge: build it\n\n{line}\n  more") == [("forge", "build it", 1)]
    assert _understood(f"@delegate forge: build it\n  with care\n\n{line}\n  more") == [("forge", "build it\nwith care", 1)]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("@complete 5f0e: The review:\nIt is fine.\n- tests pass\n\nBye.", "The review:\nIt is fine.\n- tests pass"),
        ("- **@complete 5f0e:** The review:\n  1. fine\nAnd more.", "The review:\n  1. fine\nAnd more."),
        ("@complete 5f0e:\nIt is fine.", "It is fine."),
        ('@complete 5f0e: {\n"review": "fine"\n}', '{\n"review": "fine"\n}'),
        ("@complete 5f0e: See:\n```python\nx = 1\n\ny = 2\n```\nBye.", "See:\n```python\nx = 1\n\ny = 2\n```\nBye."),
        ('@complete 5f0e:\n```json\n{"review": "fine"}\n```\n\nBye.', '```json\n{"review": "fine"}\n```'),
    ],
)
def test_lines_that_follow_directly_belong_to_it_though_they_are_not_indented(text: str, answer: str) -> None:
    answers = parse_answers(text)
    assert [(one.name, one.text, one.line) for one in answers.understood] == [("5f0e", answer, 1)]
    assert (answers.misunderstood, answers.lookalikes) == ((), ())


def test_a_json_object_ends_its_answer() -> None:
    (answer,) = parse_answers('@complete 5f0e: {"review": "fine"}\nThat is all.').understood
    assert answer.text == '{"review": "fine"}'


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("@fail 77aa: no", "understood"),
        ("- @fail 77aa", "misunderstood"),
        ("@done 77aa: fine", "lookalikes"),
        ("So @fail 77aa: no", "lookalikes"),
        ("```\n@fail 77aa: no\n```", "understood"),
        ("```\n@fail 77aa: no", "lookalikes"),
    ],
)
def test_what_looks_like_the_next_answer_ends_it(line: str, found: str) -> None:
    answers = parse_answers(f"@complete 5f0e: fine\n{line}")
    assert answers.understood[0][1:3] == ("5f0e", "fine")
    others = [*answers.understood[1:], *answers.misunderstood, *answers.lookalikes]
    assert [one in getattr(answers, found) for one in others] == [True]


def test_a_quotation_ends_it() -> None:
    assert _understood("@delegate forge: build it\n> @delegate canyon: quoted\nmore") == [("forge", "build it", 1)]


def test_the_text_may_stand_in_the_lines_below() -> None:
    assert _understood("@delegate forge:\n  build it\n  with care") == [("forge", "build it\nwith care", 1)]


def test_a_delegation_within_anothers_lines_is_its_text() -> None:
    assert _understood("@delegate forge: say\n    @delegate canyon: review it") == [("forge", "say\n@delegate canyon: review it", 1)]


def test_lines_that_end_as_on_windows_are_lines() -> None:
    text = "Hello.\r\n@delegate forge: build it\r\n  with care\r\n\r\n@delegate canyon: review it\r\n"
    assert _understood(text) == [("forge", "build it\nwith care", 2), ("canyon", "review it", 5)]


@pytest.mark.parametrize("fence", ["```", "~~~", "`````", "~~~~", "```python", "~~~ sh", "   ```", "  ~~~"])
def test_nothing_inside_a_fence_with_code_fires(fence: str) -> None:
    close = re.sub(r"[^`~]", "", fence)
    text = f"{fence}\nexample\n{LINE}\n@delegate\n{close}\n@delegate canyon: go on"
    assert (_understood(text), _misunderstood(text)) == ([("canyon", "go on", 6)], [])
    with_language = f"```python\n{LINE}\n```\n@delegate canyon: go on"
    assert _understood(with_language) == [("canyon", "go on", 4)]


@pytest.mark.parametrize("fence", ["```", "~~~", "````text"])
def test_a_fence_that_is_never_closed_goes_to_the_end(fence: str) -> None:
    _nothing(f"Look:\n{fence}\n{LINE}\n\n\n{LINE}\n@delegate")


@pytest.mark.parametrize(
    ("fence", "inner"), [("```", "~~~"), ("~~~", "```"), ("````", "```"), ("~~~~", "~~~"), ("```", "``` text"), ("```", "    ```")]
)
def test_a_fence_is_closed_by_its_like_alone(fence: str, inner: str) -> None:
    assert _understood(f"{fence}\n{inner}\n{LINE}\n{fence}\n@delegate canyon: go on") == [("canyon", "go on", 5)]


def test_a_longer_fence_closes_a_shorter_one() -> None:
    assert _understood(f"```\nx\n`````  \n{LINE}") == [("forge", "build it", 4)]


def test_a_line_of_code_between_back_ticks_opens_no_fence() -> None:
    assert _understood(f"``` `x` ```\n{LINE}") == [("forge", "build it", 2)]


def test_a_fence_within_a_delegations_lines_is_its_text_and_hides_what_is_in_it() -> None:
    text = "@delegate forge: run\n  ```\n  make\n  @delegate canyon: x\n  ```\n@delegate canyon: review it"
    assert [(agent, line) for agent, _, line in _understood(text)] == [("forge", 1), ("canyon", 6)]
    assert "make" in _understood(text)[0][1]


@pytest.mark.parametrize(
    "text",
    [
        f"`{LINE}`",
        f"``{LINE}``",
        f"Write `{LINE}` to delegate.",
        f"``x ` y\n{LINE}\nz``",
        f"`one\n{LINE}\ntwo`",
        "`@delegate`",
        "` @delegate forge`",
    ],
)
def test_nothing_between_back_ticks_fires(text: str) -> None:
    _nothing(text)


@pytest.mark.parametrize("text", ["A stray ` here.", "``` is a fence, `that` is not", "`closed`", "``two` and one", "An escaped \\` one"])
def test_a_back_tick_elsewhere_hides_nothing(text: str) -> None:
    assert _understood(f"Say: {text}\n\n{LINE}") == [("forge", "build it", 3)]
    assert _understood(f"Say: {text}\n{LINE}\n\nDone.") == [("forge", "build it", 2)]


def test_two_stray_back_ticks_hide_no_paragraph_between_them() -> None:
    assert _understood(f"One ` here.\n\n{LINE}\n\nAnother ` there.") == [("forge", "build it", 3)]


def test_back_ticks_in_the_text_are_text() -> None:
    assert _understood("@delegate forge: run `make all` and ``x`y``") == [("forge", "run `make all` and ``x`y``", 1)]
    assert _understood("@delegate forge: fix the ` key\n@delegate canyon: look") == [("forge", "fix the ` key", 1), ("canyon", "look", 2)]


@pytest.mark.parametrize("quote", ["> ", ">", " > ", "   >", ">> ", "> > "])
def test_nothing_in_a_block_quote_fires(quote: str) -> None:
    _nothing(f"They said:\n\n{quote}{LINE}\n{quote}@delegate\n\nNo.")
    assert _understood(f"{quote}{LINE}\n\n{LINE}") == [("forge", "build it", 3)]


def test_a_fence_in_a_block_quote_ends_with_the_quote() -> None:
    assert _understood(f"> ```\n> x\n\n{LINE}") == [("forge", "build it", 4)]


MALFORMED = [
    "@delegate",
    "@delegate ",
    "@delegate :",
    "@delegate : build it",
    "@delegate forge",
    "@delegate forge build it",
    "@delegate forge:",
]
MALFORMED += ["@delegate forge:   ", "@delegate .forge: x", "@delegate forge.: x", "@delegate .: x", "@delegate a b: x", "@delegate a/b: x"]
MALFORMED += [
    "@delegate @forge: x",
    f"@delegate {'x' * 201}: build it",
    "@delegate for\u202ege: x",
    "@delegate a,b: x",
    "  @delegate forge",
]


@pytest.mark.parametrize("line", MALFORMED)
def test_what_is_malformed_is_said_back_with_its_line_and_a_reason(line: str) -> None:
    answer = parse_delegations(f"Hello.\n\n{line}\n\n@delegate canyon: go on\n")
    (wrong,) = answer.misunderstood
    assert wrong.line == 3
    assert wrong.text.strip() == line.strip()
    assert wrong.why.strip()
    assert [(one.agent, one.text, one.line) for one in answer.understood] == [("canyon", "go on", 5)]


def test_the_reasons_differ_by_what_is_wrong() -> None:
    whys = [
        parse_delegations(line).misunderstood[0].why
        for line in ("@delegate", "@delegate forge build it", "@delegate forge:", "@delegate a/b: x")
    ]
    assert len(set(whys)) == 4, whys


@given(markdown | st.text() | st.text("@delgat :.\n`~> "))
def test_any_text_is_parsed_and_what_was_understood_is_well_formed(text: str) -> None:
    answer = parse_delegations(text)
    lines = [one.line for one in answer.understood] + [one.line for one in answer.misunderstood]
    assert len(set(lines)) == len(lines), "a line is understood or not"
    for one in answer.understood:
        assert NAME.fullmatch(one.agent)
        assert one.text == one.text.strip("\n\r")
        assert one.text.strip()
    assert all(one.why for one in answer.misunderstood)
    for found in ([one.line for one in answer.understood], [one.line for one in answer.misunderstood]):
        assert found == sorted(found)


@given(markdown)
def test_what_is_found_stands_where_it_is_said_to_stand(text: str) -> None:
    lines = text.split("\n")
    answer = parse_delegations(text)
    for number in [one.line for one in answer.understood] + [one.line for one in answer.misunderstood]:
        assert re.match(r" {0,3}(?:(?:[-*+]|\d+[.)])\s+)?[*_]*@delegate(?![\w-])", lines[number - 1], re.IGNORECASE)
    for one in answer.understood:
        assert one.agent in lines[one.line - 1]


@given(markdown)
def test_whatever_was_understood_can_be_written_back_and_read_again(text: str) -> None:
    for one in parse_delegations(text).understood:
        again = parse_delegations(f"@delegate {one.agent}:\n" + "\n".join(f"  {line}" for line in one.text.split("\n")))
        assert [(other.agent, other.text, other.line) for other in again.understood] == [(one.agent, one.text, 1)]
        assert again.misunderstood == ()


@given(st.lists(st.tuples(names, bodies), max_size=5), st.sampled_from(["\n", "\n\n", "\n\nThanks.\n\n"]))
@example([("a", "`"), ("a", "0\n`")], "\n")  # each has a back-tick of its own
def test_delegations_between_prose_are_read_as_they_were_written(given_them: list[tuple[str, str]], between: str) -> None:
    answer = parse_delegations(between.join(_written(agent, text) for agent, text in given_them))
    assert [(one.agent, one.text) for one in answer.understood] == given_them
    assert answer.misunderstood == ()


@given(st.lists(st.tuples(names, bodies), min_size=1, max_size=4), st.sampled_from(["```", "~~~", "`````"]))
def test_no_delegation_fires_when_it_is_shown_in_a_fence_with_other_text(given_them: list[tuple[str, str]], fence: str) -> None:
    shown = "\n".join(_written(agent, text) for agent, text in given_them if fence not in text)
    _nothing(f"For example:\n{fence}\nexample\n{shown}\n{fence}\nDone.")
    _nothing("\n".join(f"> {line}" for line in shown.split("\n")))
    _nothing("Like so:\n\n" + "\n".join(f"    {line}" for line in shown.split("\n")))


@pytest.mark.parametrize(
    "piece", ["`\n", "` ``\n", "```\n~~~\n", "  \n", "@delegate\n", "@delegate a:\n", "@delegate a: b\n  ", "> ```\n", "\\`"]
)
def test_a_long_answer_is_read_to_its_end(piece: str) -> None:
    answer = parse_delegations(piece * 30_000)
    assert len(answer.understood) + len(answer.misunderstood) <= 30_000
    assert parse_delegations("x\n" * 100_000 + LINE).understood[0].line == 100_001


def test_back_ticks_of_every_length_are_read_to_their_end() -> None:
    assert parse_delegations(" ".join("`" * nth for nth in range(4, 1_500))).understood == ()
