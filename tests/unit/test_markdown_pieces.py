"""Long Markdown texts are rendered in pieces, which together are what the whole text would be."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.server.api.markdown import render_markdown
from postroom.server.api.markdown_pieces import outline_text, render_beginning

ROOT = Path(__file__).parents[2]
LINES = [
    "", "", "", "Words of a paragraph", "and more of it", "# Heading", "## Second", "Setext", "---", "===", "- item",
    "  continued", "1. one", "> quoted", "```", "```python", "~~~", "    code", "  ```", "- ```", "> ```", "    ```",
    "see [a] and [b]", "[a]: /one", '[b]: /two "T"', "[a]:", '"title"', "- [b]: /three", "| a | b |", "|---|---|", "| 1 | 2 |",
    "<details>", "<summary>more</summary>", "</details>", "<!--", "-->", "<pre>", "</pre>", "<div>",
    "text with `code` and **bold**", "- [x] done", "$$", "x^2", "***", "letter",
]  # fmt: skip


def render_finely(text: str) -> str:
    """Render a text in as many pieces as it can have."""
    outline = outline_text(text, 1, 1)
    edges = [0, *outline["cuts"], len(text)]
    return "".join(render_markdown(text[start:end], "", outline["references"]) for start, end in pairwise(edges))


def is_balanced(text: str) -> bool:
    """Whether every tag that is opened is closed: the HTML of the others ends where its text ends."""
    return all(text.count(f"<{tag}>") == text.count(f"</{tag}>") == 0 for tag in ("details", "summary"))


@given(st.lists(st.sampled_from(LINES), max_size=30))
def test_the_pieces_together_are_the_whole(lines: list[str]) -> None:
    text = "\n".join(lines) + "\n"
    if is_balanced(text):
        assert render_finely(text) == render_markdown(text)


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_the_documents_of_this_project_are_the_same_in_pieces(path: Path) -> None:
    text = path.read_text()
    assert render_finely(text) == render_markdown(text)


def test_a_text_is_cut_where_blocks_begin_and_not_within_details() -> None:
    pieces = ["# One\n\n", "Words.\n\n", "- a\n\n  ```\n  code\n\n  code\n  ```\n\n", "<details>\n\nhidden\n\n</details>\n\n", "End.\n"]
    assert outline_text("".join(pieces), 1, 1)["cuts"] == [len("".join(pieces[:count])) for count in range(1, len(pieces))]


def test_every_piece_knows_the_addresses_of_the_whole() -> None:
    assert render_finely("See [a].\n\nAnd [a] again.\n\n[a]: https://example.org\n").count('href="https://example.org"') == 2


def test_the_beginning_is_the_first_piece() -> None:
    text = "Some words, and [a link][1].\n\n" * 2000 + "[1]: https://example.org\n"
    beginning, outline = render_beginning(text), outline_text(text)
    assert beginning["end"] == outline["cuts"][0]
    assert beginning["html"] == render_markdown(text[: beginning["end"]], "", outline["references"])
    assert beginning["html"].count("https://example.org") == text[: beginning["end"]].count("[1]")


def test_a_text_whose_first_block_is_very_long_has_no_beginning() -> None:
    assert render_beginning("```\n" + "code\n" * 20_000 + "```\n\nEnd.\n")["end"] is None
