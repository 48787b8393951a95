"""A leader sends six chapters to three workers of one name. One worker asks a question and goes on when the leader has answered.

Run it: python examples/leader_and_workers.py
"""

from multiprocessing import get_context
from tempfile import TemporaryDirectory

import postroom
from postroom import work

CHAPTERS = ["Rates", "Trade", "Housing", "Labour", "Energy", "Outlook"]


def run_worker(place: str) -> None:
    """Translate chapters until none is left."""
    with postroom.open(place) as store:
        while claim := work.take(store, agent="translator"):
            thread_id, token = claim.thread.thread_id, claim.lease.lease_token
            language = "German"
            if claim.thread.subject == "Outlook":
                asked = work.update(store, thread_id, agent="translator", status="blocked", summary="Which language?", lease_token=token)
                found = work.wait_reply(store, thread_id, agent="translator", after_event=asked.next_event_id, lease_token=token)
                language = found.message.summary if found.message else language
            work.done(store, thread_id, agent="translator", summary=f"{claim.thread.subject} in {language}", lease_token=token)


def main() -> None:
    with TemporaryDirectory() as folder:
        place = f"{folder}/coord.db"
        postroom.init(place)
        with postroom.open(place) as store:
            for chapter in CHAPTERS:
                work.send(store, sender="leader", to="translator", run_id="book", subject=chapter)
        workers = [get_context("spawn").Process(target=run_worker, args=(place,)) for _ in range(3)]
        for worker in workers:
            worker.start()

        with postroom.open(place) as store:
            [question, *_] = work.watch(store, run_id="book", statuses=["blocked"], after_event=0).events
            print(f"{question.source} asks: {question.summary}")
            work.reply(store, question.thread_id, sender="leader", summary="French")
            run = work.wait_run(store, "book").run
            for thread in work.list_threads(store, run_id="book").threads:
                print(work.show(store, thread.thread_id).messages[-1].summary)
            print(f"{run.by_status['done']} of {run.threads} chapters are done")
        for worker in workers:
            worker.join()


if __name__ == "__main__":
    main()
