"""Whether a store that was found, or a queue that is to be dispatched, can be trusted: whose it is, and who else can write it.

A store in a folder above may be a trap: its messages are instructions, and the handlers of a queue are commands. git had this problem
(CVE-2022-24765) and refuses repositories of other owners unless `safe.directory` names them. INBOX_SAFE does the same for stores.
"""

from __future__ import annotations

import os

from postroom.core.errors import UntrustedStore
from postroom.core.text import shell_quote
from postroom.store.files.private_files import SHARED_FILE_MODE

_STICKY = 0o1000  # in a folder with this bit, only the owner of a file may replace it


def require_trusted_store(database: str) -> None:
    """Refuse with `UntrustedStore` if another user owns or can change a store that was found by looking upward."""
    risk = find_risk(database)
    if risk and not _is_named_safe(database):
        safe = shell_quote(os.path.dirname(os.path.realpath(database)))
        hint = (
            f"If it is yours, run `inbox init --db {shell_quote(database)}`. If you trust it, name it with --db, or set INBOX_SAFE={safe}."
        )
        raise UntrustedStore(f"the store {database} was found, but {risk}", hint=hint, path=database)


def require_own_folder(database: str) -> None:
    """Refuse with `UntrustedStore` to create a store that was not named in a folder of another user, or to upgrade one of another user.

    What a group of ours shares is allowed. What other users can write, `init` makes private.
    """
    if _is_shared_with_us(database) or _is_named_safe(database):
        return
    for place in (os.path.dirname(database), database):
        owner = os.stat(place).st_uid if os.path.exists(place) else os.geteuid()
        if owner != os.geteuid():
            hint = f"If you trust that user, name the store: `inbox init --db {shell_quote(database)}`."
            where = os.path.realpath(place)
            raise UntrustedStore(f"{where} belongs to {_user_name(owner)}", hint=hint, path=where)


def require_own_queue(database: str) -> None:
    """Refuse with `UntrustedStore` to run the handlers of a queue that another user owns, or that users outside of its group can change."""
    folder = os.path.dirname(database)
    owner = find_other_owner(database)
    if owner:
        hint = f"Its handlers run as their owner. Let {owner} run: thread dispatch --thread {shell_quote(folder)}"
        raise UntrustedStore(f"the queue {folder} belongs to {owner}", hint=hint, path=folder)
    risk = find_risk(database)
    if risk and not _is_named_safe(database):
        hint = f"Run `chmod -R go-w {shell_quote(folder)}`, or set INBOX_SAFE={shell_quote(folder)} if you trust them."
        raise UntrustedStore(f"handlers of the queue {folder} are not started, because {risk}", hint=hint, path=folder)


def find_other_owner(path: str) -> str:
    """Return the name of the user who owns a file or its folder, or "" if both are ours."""
    for place in (path, os.path.dirname(path)):
        owner = os.stat(place).st_uid
        if owner != os.geteuid():
            return _user_name(owner)
    return ""


def find_risk(database: str) -> str:
    """Return which other user can change a database, as the end of a sentence, or "" if no other user can.

    A database that is shared with a group of ours is no risk. The folder around it counts too: a user who can write that could replace it.
    """
    folder, is_shared_with_us = os.path.dirname(os.path.abspath(database)), _is_shared_with_us(database)
    for place in (database, folder):
        status = os.stat(place)
        if status.st_uid != os.geteuid() and not is_shared_with_us:
            return f"{place} belongs to {_user_name(status.st_uid)}"
        if status.st_mode & 0o002:
            return f"everybody can write {place}"
        if status.st_mode & 0o020 and not is_shared_with_us and not _is_private_group(status.st_gid):
            return f"the group {_group_name(status.st_gid)} can write {place}"
    parent = os.path.dirname(folder)
    status = os.stat(parent)
    if not status.st_mode & _STICKY and (status.st_mode & 0o002 or (status.st_mode & 0o020 and not _is_our_group(status.st_gid))):
        return f"other users can write {parent}, and so replace {folder}"
    return ""


def _is_named_safe(database: str) -> bool:
    """Return whether INBOX_SAFE names a database, its folder or the one above. `*` names all of them."""
    named = [part for part in os.environ.get("INBOX_SAFE", "").split(os.pathsep) if part]
    database = os.path.realpath(database)
    folder = os.path.dirname(database)
    return "*" in named or not {os.path.realpath(part) for part in named}.isdisjoint((database, folder, os.path.dirname(folder)))


def _is_shared_with_us(database: str) -> bool:
    """Return whether a database is shared with a group of ours."""
    if not os.path.exists(database):
        return False
    status = os.stat(database)
    return status.st_mode & 0o777 == SHARED_FILE_MODE and _is_our_group(status.st_gid)


def _is_our_group(group_id: int) -> bool:
    return group_id == os.getegid() or group_id in os.getgroups()


def _is_private_group(group_id: int) -> bool:
    """Return whether a group is the private group of this user, which many systems create for each user together with umask 002."""
    import grp

    user = _user_name(os.geteuid())
    try:
        group = grp.getgrgid(group_id)
    except KeyError:
        return False
    return group.gr_name == user and set(group.gr_mem) <= {user}


def _user_name(user_id: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return f"user {user_id}"


def _group_name(group_id: int) -> str:
    import grp

    try:
        return grp.getgrgid(group_id).gr_name
    except KeyError:
        return str(group_id)
