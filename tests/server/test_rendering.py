"""The render processes: isolated from the folder of the server, bounded in what they return, and more than one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from postroom.server.api.markdown import render_markdown
from postroom.server.runtime import render_process
from postroom.server.runtime.long_markdown import ALL, BEGINNING, REST, prepare_long_markdown, render_long_markdown
from postroom.server.runtime.render_process import RenderPool

T = TypeVar("T")
REFERENCE_BOMB = f"[a]: http://x.example/{'y' * 19_000}\n\n" + "[a]" * 2500  # 27 KiB, whose HTML has 47 MiB


def rendered(use: Callable[[RenderPool], Awaitable[T]]) -> T:
    async def use_pool() -> T:
        pool = RenderPool()
        try:
            return await use(pool)
        finally:
            await pool.close()

    return asyncio.run(use_pool())


def test_a_file_in_the_servers_folder_is_not_run_by_the_renderer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nh3", "types", "markdown_it"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert rendered(lambda pool: pool.render_texts(["# Title"])) == ["<h1>Title</h1>\n"]
    assert not (tmp_path / "ran").exists()


def test_secrets_of_the_servers_environment_do_not_reach_the_renderer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INBOX_TOKEN", "pra_secret")

    async def environment_of_child(pool: RenderPool) -> bytes:
        await pool.render_texts(["x"])
        [child] = [process._child for process in pool._processes if process._child is not None]
        return Path(f"/proc/{child.pid}/environ").read_bytes()

    assert b"pra_secret" not in rendered(environment_of_child)


def test_a_text_whose_html_would_be_far_larger_is_shown_as_it_is() -> None:
    [html] = rendered(lambda pool: pool.render_texts([REFERENCE_BOMB]))
    assert html == f"<pre>{REFERENCE_BOMB}</pre>"


def test_the_cache_is_counted_by_the_bytes_that_were_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render_process, "MAX_CACHED_BYTES", 10_000)

    async def fill(pool: RenderPool) -> int:
        for number in range(8):
            await pool.render_texts([str(number) * 3000])
        return sum(len(answer) for answer in pool._cache.values())

    assert 0 < rendered(fill) <= 10_000


def test_a_document_without_end_does_not_delay_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def while_one_is_stuck(pool: RenderPool) -> list[str]:
        await pool.render_texts(["warm"])
        stuck = pool._idle.get_nowait()  # as by a document without end
        try:
            return await pool.render_texts(["*quick*"])
        finally:
            pool._idle.put_nowait(stuck)

    monkeypatch.setattr(render_process, "QUEUE_TIMEOUT_SECONDS", 0.01)
    assert rendered(while_one_is_stuck) == ["<p><em>quick</em></p>\n"]


def test_a_long_document_is_the_same_whole_and_in_parts_and_leaves_the_processes_of_others_free() -> None:
    text = "".join(f"## Chapter {number}\n\nSome **words**, and [a link][1].\n\n" for number in range(3000)) + "[1]: https://example.org\n"

    async def render_parts(pool: RenderPool) -> tuple[str, str, int]:
        least_idle = render_process.RENDER_PROCESSES
        whole = asyncio.ensure_future(render_long_markdown(pool, text, "", ALL))
        while not whole.done():
            least_idle = min(least_idle, pool._idle.qsize())
            await asyncio.wait([whole], timeout=0.01)
        beginning, rest = [await render_long_markdown(pool, text, "", part) for part in (BEGINNING, REST)]
        assert beginning is not None
        assert rest is not None
        assert beginning["more"]
        assert len(rest["pieces"]) > 1
        return (whole.result() or {})["html"], beginning["html"] + "".join(rest["pieces"]), least_idle

    whole, in_parts, least_idle = rendered(render_parts)
    assert whole == in_parts == render_markdown(text)
    assert least_idle == render_process.RENDER_PROCESSES


@pytest.mark.parametrize("text", ["One[^1].\n\n[^1]: note\n", "One^[a note].\n"])
def test_a_document_with_footnotes_is_not_rendered_in_pieces(text: str) -> None:
    assert prepare_long_markdown(text) is None
