"""Insert entries into a JSON file that may have comments, or remove them, and leave every other byte as it is.

Used for the settings of other programs.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Path = tuple[str, ...]

_SPACE = " \t\r\n\ufeff"
MAX_LEVELS = 100


class Node:
    """A value of the file: its span, its value, and its children. A member of an object begins with its name, at `item_start`."""

    def __init__(self, start: int, end: int, value: Any, children: dict[str, Node] | list[Node] | None = None) -> None:
        self.item_start = start
        self.start = start
        self.end = end
        self.value = value
        self.children = children


def parse_with_spans(text: str) -> Node:
    """Parse JSON with comments and trailing commas. Raises `ValueError` with the position of a mistake."""
    node, end = _parse_value(text, _skip(text, 0), MAX_LEVELS)
    if _skip(text, end) != len(text):
        raise ValueError(f"text after the end, at character {end}")
    return node


def _skip(text: str, at: int) -> int:
    """Return the position behind white space and comments."""
    while at < len(text):
        if text[at] in _SPACE:
            at += 1
        elif text.startswith("//", at):
            at = _find_end(text, "\n", at, len(text))
        elif text.startswith("/*", at):
            at = _find_end(text, "*/", at, None)
        else:
            break
    return at


def _find_end(text: str, mark: str, at: int, default: int | None) -> int:
    found = text.find(mark, at)
    if found >= 0:
        return found + len(mark)
    if default is None:
        raise ValueError(f"a comment without an end, at character {at}")
    return default


def _parse_value(text: str, at: int, levels: int) -> tuple[Node, int]:
    if not levels:
        raise ValueError("nested too deeply")
    if text[at : at + 1] == "{":
        return _parse_object(text, at, levels)
    if text[at : at + 1] == "[":
        return _parse_array(text, at, levels)
    value, end = json.JSONDecoder().raw_decode(text, at)
    return Node(at, end, value), end


def _parse_object(text: str, start: int, levels: int) -> tuple[Node, int]:
    members: dict[str, Node] = {}
    at = _skip(text, start + 1)
    while text[at : at + 1] != "}":
        if text[at : at + 1] != '"':
            raise ValueError(f"a name is missing, at character {at}")
        item_start = at
        name, at = json.JSONDecoder().raw_decode(text, at)
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            raise ValueError(f"a colon is missing, at character {at}")
        members[name], at = _parse_value(text, _skip(text, at + 1), levels - 1)
        members[name].item_start = item_start
        at = _next_item(text, at, "}")
    return Node(start, at + 1, {name: node.value for name, node in members.items()}, members), at + 1


def _parse_array(text: str, start: int, levels: int) -> tuple[Node, int]:
    items: list[Node] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != "]":
        node, at = _parse_value(text, at, levels - 1)
        items.append(node)
        at = _next_item(text, at, "]")
    return Node(start, at + 1, [node.value for node in items], items), at + 1


def _next_item(text: str, at: int, closing: str) -> int:
    """Return the position of the next item, or of the closing bracket."""
    at = _skip(text, at)
    if text[at : at + 1] == ",":
        return _skip(text, at + 1)
    if text[at : at + 1] != closing:
        raise ValueError(f"a comma or {closing} is missing, at character {at}")
    return at


def find_value(text: str, path: Path) -> Any:
    """Return the value at a path of names, or None."""
    value = parse_with_spans(text).value
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    return value


def insert_entry(text: str, path: Path, value: Any, *, append: bool = False) -> str:
    """Insert a value at a path of names, and return the new text. With `append`, add it to the list at the path.

    Raises `ValueError` if the file is broken, or if something else stands in the way.
    """
    root = parse_with_spans(text)
    node, depth = root, 0
    while depth < len(path) and isinstance(node.children, dict) and path[depth] in node.children:
        node, depth = node.children[path[depth]], depth + 1
    rest = path[depth:]
    if append and not rest:
        if not isinstance(node.children, list):
            raise ValueError(f"{'.'.join(path)} is not a list")
        return _insert_item(text, node, _dump(value, _item_indent(text, node)))
    if not rest:
        raise ValueError(f"{'.'.join(path)} exists already")
    if not isinstance(node.children, dict):
        raise ValueError(f"{'.'.join(path[:depth]) or 'the file'} is not an object")
    inner: Any = [value] if append else value
    for name in reversed(rest[1:]):
        inner = {name: inner}
    return _insert_item(text, node, f"{json.dumps(rest[0])}: {_dump(inner, _item_indent(text, node))}")


def remove_entry(text: str, path: Path, value: Any, *, append: bool = False) -> str | None:
    """Remove the value at a path of names, or with `append` the item of the list at the path. Returns None if it is not there."""
    node: Node | None = parse_with_spans(text)
    for name in path if append else path[:-1]:
        node = node.children.get(name) if node is not None and isinstance(node.children, dict) else None
    children = None if node is None else node.children
    found = None
    if append and isinstance(children, list):
        found = next((child for child in children if child.value == value), None)
    elif not append and isinstance(children, dict) and path[-1] in children and children[path[-1]].value == value:
        found = children[path[-1]]
    return None if node is None or found is None else _remove_item(text, node, found)


def _remove_item(text: str, parent: Node, item: Node) -> str:
    """Remove an item with one comma. Comments around it stay."""
    children = list(parent.children.values()) if isinstance(parent.children, dict) else parent.children or []
    if len(children) == 1:
        return text[: parent.start + 1] + text[parent.end - 1 :]
    if item is children[-1]:
        return text[: children[-2].end] + text[item.end :]
    behind = _skip(text, item.end) + 1
    return text[: item.item_start] + text[behind:].lstrip(_SPACE)


def _insert_item(text: str, parent: Node, item: str) -> str:
    """Insert the text of an item at the end of an object or a list."""
    children = list(parent.children.values()) if isinstance(parent.children, dict) else parent.children or []
    indent = _item_indent(text, parent)
    if not children:
        outer = _line_indent(text, parent.start)
        return f"{text[: parent.start + 1]}\n{indent}{item}\n{outer}{text[parent.end - 1 :]}"
    last = children[-1].end
    behind = _skip(text, last)
    comma = "" if text[behind : behind + 1] == "," else ","
    place = behind + 1 if not comma else last
    return f"{text[:place]}{comma}\n{indent}{item}{text[place:]}"


def _item_indent(text: str, parent: Node) -> str:
    children = list(parent.children.values()) if isinstance(parent.children, dict) else parent.children or []
    return _line_indent(text, children[-1].start) if children else _line_indent(text, parent.start) + "  "


def _line_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _dump(value: Any, indent: str) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", f"\n{indent}")
