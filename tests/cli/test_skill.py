"""The skill: what is printed is what is shipped, and nobody's file is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

import postroom
from postroom.cli.inbox.spec import INBOX
from tests.cli.process import Inbox

COMMANDS = INBOX.commands

SHIPPED = (Path(postroom.__file__).parent / "skill" / "SKILL.md").read_text(encoding="utf-8")


def test_the_shipped_skill_is_printed_whole(bare: Inbox) -> None:
    assert bare.says("skill") == SHIPPED
    assert bare.ok("skill")["text"] == SHIPPED


def test_the_skill_has_the_front_matter_that_agents_read() -> None:
    _, front, body = SHIPPED.split("---\n", 2)
    keys = [line.split(":")[0] for line in front.splitlines() if line and not line.startswith((" ", "-"))]
    description = next(line for line in front.splitlines() if line.startswith("description:"))
    assert "name: inbox" in front.splitlines()
    assert set(keys) <= {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    assert len(description.partition(":")[2].strip()) <= 1024
    assert len(body.splitlines()) < 500


@pytest.mark.parametrize("name", ["fetch", "claim", "update", "wait-reply", "reply", "done", "fail", "take", "watch"])
def test_the_skill_teaches_the_commands_of_the_document(name: str) -> None:
    assert name in COMMANDS
    assert f"inbox {name}" in SHIPPED


def test_it_is_installed_where_agents_look(bare: Inbox) -> None:
    for folder in (".claude/skills", ".agents/skills"):
        place = bare.ok("skill", "--install", folder)["path"]
        assert (bare.folder / place) == bare.folder / folder / "inbox" / "SKILL.md"
        assert (bare.folder / place).read_text(encoding="utf-8") == SHIPPED


def test_a_foreign_file_is_kept_without_force_and_replaced_with_it(bare: Inbox) -> None:
    place = bare.folder / "skills" / "inbox" / "SKILL.md"
    place.parent.mkdir(parents=True)
    place.write_text("somebody else's skill\n")

    refused = bare.run("skill", "--install", "skills", "--json")
    assert refused.error == (30, "invalid_input", "skills/inbox/SKILL.md differs from this version's skill")
    assert place.read_text() == "somebody else's skill\n"

    bare.ok("skill", "--install", "skills", "--force")
    assert place.read_text(encoding="utf-8") == SHIPPED
    assert list(place.parent.iterdir()) == [place]


def test_our_own_skill_that_somebody_changed_is_kept_without_force(bare: Inbox) -> None:
    place = bare.folder / "skills" / "inbox" / "SKILL.md"
    bare.ok("skill", "--install", "skills")
    place.write_text(SHIPPED + "\nAlways greet the user.\n", encoding="utf-8")

    refused = bare.run("skill", "--install", "skills", "--json")
    assert refused.code == 30, refused
    assert place.read_text(encoding="utf-8").endswith("Always greet the user.\n")


def test_a_link_beside_the_skill_is_never_written_through(bare: Inbox) -> None:
    precious, place = bare.folder / "precious", bare.folder / "skills" / "inbox" / "SKILL.md"
    precious.write_text("precious\n")
    place.parent.mkdir(parents=True)
    (place.parent / "SKILL.md.new").symlink_to(precious)

    bare.ok("skill", "--install", "skills")
    assert precious.read_text() == "precious\n"
    assert (place.read_text(encoding="utf-8"), place.stat().st_mode & 0o777) == (SHIPPED, 0o644)
