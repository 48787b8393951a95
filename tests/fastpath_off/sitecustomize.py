"""On the path of an interpreter, this keeps Postroom from CPython's private modules, which FASTPATH_OFF names.

The public modules can still import them. `json` alone must do without its own: `_json` is missing altogether.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Mapping, Sequence

_OFF = os.environ["FASTPATH_OFF"].split()
_import = builtins.__import__


def _import_all_but_private(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] = (),
    level: int = 0,
) -> object:
    if name in _OFF and globals is not None and str(globals.get("__name__")).startswith("postroom."):
        raise ImportError(f"{name} is kept from Postroom by a test")
    return _import(name, globals, locals, fromlist, level)


builtins.__import__ = _import_all_but_private  # type: ignore[assignment]
if "_json" in _OFF:
    sys.modules["_json"] = None  # type: ignore[assignment]
