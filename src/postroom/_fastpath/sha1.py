"""SHA-1 without importing `hashlib`. `core.text` calls it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import sha1
else:
    try:
        from _sha1 import sha1
    except ImportError:  # an interpreter that was built with the digests of OpenSSL only
        from hashlib import sha1

__all__ = ["sha1"]
