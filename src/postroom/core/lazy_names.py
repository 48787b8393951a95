"""Names of a package that are imported when they are first used, so that a command loads only the modules that it needs.

The `__init__` modules of the rooms call this.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def import_on_first_use(
    package: dict[str, Any], module_of_name: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package. `module_of_name` has the module of each public name."""

    def find_name(name: str) -> object:
        if name not in module_of_name:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        from importlib import import_module

        found = package[name] = getattr(import_module(f"{package['__name__']}.{module_of_name[name]}"), name)
        return found

    def list_names() -> list[str]:
        return sorted({*module_of_name, *(name for name in package if name.startswith("_"))})

    return find_name, list_names
