"""Files that the server keeps between runs, readable for their owner only: the token of its person, and its address."""

from __future__ import annotations

import os

from postroom.core.errors import NotFound, StorageFailure
from postroom.people.access import passes, tokens
from postroom.server.config import Settings
from postroom.store.files.private_files import PRIVATE_FOLDER_MODE, make_private_folder, write_private_file
from postroom.store.interface import Store
from postroom.store.location import URL_NOTE, state_folder


def load_or_issue_token(store: Store, settings: Settings) -> tuple[str, str]:
    """Return the person's token for scripts, and the path of its file: the token of the last run if it is still valid, else a new one.

    The file is in the state folder of the user, because agents can read the folder of the store: it may be inside their workspace.
    """
    folder = state_folder(store.location)
    path = os.path.join(folder, "token")
    try:
        make_private_folder(folder)
        os.chmod(folder, PRIVATE_FOLDER_MODE)  # somebody may have made it
        token = _read_valid_token(path, store, settings.person)
        if token is None:
            issue = (
                passes.issue_bearer if "://" not in store.location else passes.issue_further_bearer
            )  # a database may have servers on other machines
            token = issue(store, person=settings.person)
            write_private_file(path, token + "\n")
    except OSError as error:
        hint = "Set XDG_STATE_HOME to a folder that only you can write."
        raise StorageFailure(f"{path} cannot be written: {error.strerror}", hint=hint) from None
    _remove_old_files(store, settings)
    return token, path


def _read_valid_token(path: str, store: Store, person: str) -> str | None:
    """Return the token in the file, or None if there is none, it expired, or it is another person's. Its use counts."""
    try:
        with open(path, encoding="ascii") as file:
            token = file.read().strip()
        if passes.person_of(store, token) != person:
            return None
    except (OSError, ValueError, NotFound):
        return None
    passes.record_use(store, tokens.hash_token(token))
    return token


def _remove_old_files(store: Store, settings: Settings) -> None:
    """Remove the files of version 0.1, which were in the data folder. Their tokens are void since the upgrade of the store."""
    for folder in {settings.data, store.data_folder} - {None}:
        for name in ("token", "token.new", "server"):
            try:
                os.unlink(os.path.join(str(folder), name))
            except OSError:
                pass  # there is none, or it is not ours to remove


def write_url_note(store: Store, url: str) -> str:
    """Write the address of the server to a file, for the commands that print links. Return its path.

    It is not beside the store: an agent that changed it there would get the next sign-in link.
    """
    path = os.path.join(state_folder(store.location), URL_NOTE)
    write_private_file(path, url + "\n")
    return path


def remove_url_note(path: str, url: str) -> None:
    """Remove the file with the address, unless another server has replaced it since."""
    try:
        with open(path, encoding="utf-8") as file:
            is_ours = file.read().strip() == url
        if is_ours:
            os.unlink(path)
    except OSError:
        pass
