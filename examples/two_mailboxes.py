"""Two programs exchange messages. The lead opens the file of the store; the reviewer, perhaps on another machine, uses a WebSocket.

Run it: python examples/two_mailboxes.py
"""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from tempfile import TemporaryDirectory

import postroom
from postroom import mail, people

PATCHES = ["login.patch", "logout.patch"]


def run_reviewer(url: str, token: str) -> None:
    """Review each patch and send the verdict back. A message that is not acked comes again."""
    with postroom.connect(url, token=token) as store:
        for _ in PATCHES:
            delivery = mail.wait(store, "reviewer")
            if delivery:
                verdict = f"{delivery.message.payload} looks good"
                mail.enqueue(store, {"from": "reviewer", "to": "lead", "payload": verdict})
                mail.ack(store, "reviewer", delivery.message.msg_id, delivery_token=delivery.delivery_token)


def lead(place: str) -> None:
    """Send the patches and print the verdicts."""
    with postroom.open(place) as store:
        for patch in PATCHES:
            mail.enqueue(store, {"from": "lead", "to": "reviewer", "payload": patch})
        for _ in PATCHES:
            delivery = mail.wait(store, "lead")
            if delivery:
                print(f"{delivery.message.sender}: {delivery.message.payload}")
                mail.ack(store, "lead", delivery.message.msg_id, delivery_token=delivery.delivery_token)


@contextmanager
def serve(place: str, *, state_folder: str) -> Iterator[str]:
    """Run a server for the store and yield its address. Its token for people is kept in the state folder."""
    command = ["inbox", "serve", "--db", place, "--port", "0", "--json"]
    environment = {**os.environ, "XDG_STATE_HOME": state_folder}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment) as server:
        assert server.stdout is not None
        try:
            yield json.loads(server.stdout.readline())["url"].replace("http://", "ws://")
        finally:
            server.terminate()


def main() -> None:
    with TemporaryDirectory() as folder:
        place = f"{folder}/coord.db"
        postroom.init(place)
        with postroom.open(place) as store:
            token = people.issue_agent_token(store, name="reviewer")
        with serve(place, state_folder=folder) as url:
            reviewer = get_context("spawn").Process(target=run_reviewer, args=(url, token))
            reviewer.start()
            lead(place)
            reviewer.join()


if __name__ == "__main__":
    main()
