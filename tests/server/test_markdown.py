"""Markdown as models write it: figures, links, task lists, footnotes, maths, diagrams, a little HTML. Also tables and texts."""

from __future__ import annotations

import pytest

from postroom.server.api.markdown import clean_html
from postroom.server.api.rendering import diff_lines, render_document


def _shown(text: str, path: str = "reports/q3.md") -> str:
    return str(render_document(path, text.encode(), whole=True)["html"])


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("![Revenue](pic.png)", "reports/pic.png"),
        ("![Revenue](../figures/a%20b.png)", "figures/a b.png"),
        ("![Revenue](/figures/x.svg)", "figures/x.svg"),
    ],
)
def test_a_figure_of_the_workspace_is_named_for_the_page_to_fetch(written: str, path: str) -> None:
    assert _shown(written) == f'<p><img data-path="{path}" alt="Revenue"></p>\n'


def test_a_figure_that_cannot_be_shown_leaves_its_words() -> None:
    assert _shown("![Revenue](../../etc/passwd)") == "<p>Revenue (outside of the workspace)</p>\n"
    html = _shown("![Revenue](https://tracker.example/a.png)")
    assert "<img" not in html
    assert ">Revenue</a> (a picture on another site)" in html


def test_a_link_to_a_document_of_the_workspace_stays_inside() -> None:
    assert '<a data-path="reports/other.md" ' in _shown("[other](other.md#part)")
    assert 'href="https://x.example"' in _shown("[web](https://x.example)")
    assert "href" not in _shown("[bad](javascript:alert(1))")


def test_task_lists_say_what_is_done() -> None:
    html = _shown("- [x] tested\n- [ ] shipped\n- [link] no task\n")
    assert html.count('class="task"') == 2
    assert 'aria-label="done">☑</span> tested' in html
    assert 'aria-label="not done">☐</span> shipped' in html
    assert "[link] no task" in html


def test_footnotes_point_to_each_other() -> None:
    html = _shown("Rates[^a].\n\n[^a]: The source.\n")
    assert 'href="#fn1" id="fnref1"' in html
    assert '<li id="fn1"' in html
    assert "The source." in html


def test_bare_addresses_are_links_and_punctuation_is_not_part_of_them() -> None:
    html = _shown("See https://x.example/a_(b), or `https://code.example`.")
    assert '<a href="https://x.example/a_(b)"' in html
    assert "<code>https://code.example</code>" in html
    assert html.count("<a ") == 1


def test_a_few_tags_are_kept_and_every_other_one_is_text() -> None:
    html = _shown("<details><summary>More</summary>\n\nH<sub>2</sub>O, <kbd>Ctrl</kbd>, a<br>b\n\n</details>\n")
    for tag in ("<details>", "<summary>More</summary>", "<sub>2</sub>", "<kbd>Ctrl</kbd>", "<br>"):
        assert tag in html
    hostile = _shown('<b onclick="x()">a</b> <script>x()</script> <img src=x onerror=x()> List<String> <!-- note -->')
    assert "&lt;script&gt;" in hostile
    assert "List&lt;String&gt;" in hostile
    assert "note" not in hostile
    assert "<img" not in hostile
    assert "<b " not in hostile


def test_ids_cannot_be_chosen() -> None:
    assert clean_html('<a id="toasts">x</a><a id="fnref1">y</a>').count("id=") == 1


def test_maths_and_diagrams_are_handed_to_the_page_as_text() -> None:
    html = _shown("So $e^{i\\pi} = -1$ and \\(a_b\\).\n\n$$\\int_0^1 x$$\n\n```mermaid\ngraph TD; A-->B\n```\n")
    assert '<code class="maths">e^{i\\pi} = -1</code>' in html
    assert '<code class="maths">a_b</code>' in html
    assert '<code class="maths display">\\int_0^1 x</code>' in html
    assert '<pre class="mermaid">graph TD; A--&gt;B\n</pre>' in html


@pytest.mark.parametrize("text", ["~$197 (~$188)", "from $5 to $6", "$HOME and $PATH", "US$ and AU$", "a \\[note\\] b"])
def test_dollars_and_brackets_in_a_sentence_are_no_maths(text: str) -> None:
    assert "maths" not in _shown(text)


def test_separated_values_are_a_table_with_its_numbers_at_the_right() -> None:
    html = _shown('name,amount\n"a, b",1204331.20\n<x>,\n', "data/totals.csv")
    assert "<th>name</th><th>amount</th>" in html
    assert '<td>a, b</td><td align="right">1204331.20</td>' in html
    assert "<td>&lt;x&gt;</td>" in html
    assert "<th>a</th><th>b</th>" in _shown("a;b\n1;2\n", "x.csv")
    assert "<th>a</th><th>b</th>" in _shown("a\tb\n1\t2\n", "x.tsv")


def test_a_table_of_many_rows_is_cut_and_says_how_many_there_are() -> None:
    shown = render_document("x.csv", b"n\n" + b"1\n" * 5000, whole=True)
    assert shown["rows"] == 5000
    assert shown["html"].count("<tr>") == 1001


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_texts_of_other_programs_are_texts(encoding: str) -> None:
    shown = render_document("notes.txt", "Grüße aus München, heute".encode(encoding), whole=True)
    assert (shown["kind"], shown["text"]) == ("text", "Grüße aus München, heute")


def test_bytes_that_are_no_text_stay_a_download() -> None:
    assert render_document("x.dat", bytes(range(1, 256)), whole=True)["kind"] == "binary"


def test_pictures_of_lines_and_portable_documents_are_known() -> None:
    assert render_document("logo.svg", b"<svg><script>x()</script></svg>", whole=True) == {"kind": "image", "html": None}
    assert render_document("paper.pdf", b"%PDF-1.7", whole=True) == {"kind": "pdf", "html": None}


def test_a_difference_marks_the_words_that_changed() -> None:
    lines = diff_lines("a\nWait 5 minutes.\n", "a\nWait 25 minutes.\nnew\n")
    assert [line["op"] for line in lines] == ["@", " ", "-", "+", "+"]
    assert lines[2]["parts"] == [["Wait ", False], ["5", True], [" minutes.", False]]
    assert lines[3]["parts"] == [["Wait ", False], ["25", True], [" minutes.", False]]
    assert "parts" not in lines[4]
