"""The policy of a store: what is pruned by itself, and when that was last done. It is a setting in the store.

The server prunes by it. For a store in a file, a timer of the notifier does so too, so that no server is needed.
"""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, clock
from postroom.core.durations import format_duration
from postroom.core.errors import NotFound, Refusal
from postroom.core.records.retention import PruneResult, RetentionPolicy
from postroom.core.text import sha1_hex, shell_quote
from postroom.maintenance.pruning import prune
from postroom.processes.interpreter import isolated_command
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from postroom.store.interface import Store, Transaction

POLICY_SETTING, PRUNED_SETTING = "retention", "retention.pruned_at"
INTERVAL_SECONDS = 86_400  # between two runs by policy
MAX_KEPT_RUNS = 1000


def read_policy(store: Store) -> RetentionPolicy | None:
    """Return the policy of a store, or None if nothing is pruned by itself."""
    with store.read() as tx:
        return _find_policy(tx)


@retry_on_contention
def set_policy(store: Store, *, older_than_seconds: int, keep_runs: Sequence[str] = ()) -> RetentionPolicy:
    """Store what is to be pruned by itself, and return it."""
    runs = tuple(checks.line("keep-runs", run) for run in checks.items("keep-runs", keep_runs, maximum=MAX_KEPT_RUNS))
    value = jsontext.dumps({"older_than_seconds": older_than_seconds, "keep_runs": list(runs)})
    with store.write() as tx:
        tx.execute(tx.sql.setting_put, name=POLICY_SETTING, value=value)
        tx.execute(tx.sql.setting_delete, name=PRUNED_SETTING)  # a new policy applies at once
    return RetentionPolicy(older_than_seconds, format_duration(older_than_seconds), runs)


@retry_on_contention
def clear_policy(store: Store) -> None:
    """Let nothing be pruned by itself any more."""
    with store.write() as tx:
        tx.execute(tx.sql.setting_delete, name=POLICY_SETTING)


def prune_by_policy(store: Store, *, is_stopping: Callable[[], bool] = lambda: False) -> PruneResult:
    """Prune as the policy says, and record when. Refuses with `NotFound` if there is no policy."""
    policy = read_policy(store)
    if policy is None:
        raise NotFound("the store has no policy", hint="Set one: inbox store policy --older-than 90d")
    result = prune(store, older_than_seconds=policy.older_than_seconds, keep_runs=policy.keep_runs, is_stopping=is_stopping)
    with store.write() as tx:
        tx.execute(tx.sql.setting_put, name=PRUNED_SETTING, value=clock.format_stamp(tx.now()))
    return result


def is_due(store: Store) -> bool:
    """Return whether the store has a policy, and was not pruned by it for `INTERVAL_SECONDS`."""
    with store.read() as tx:
        if _find_policy(tx) is None:
            return False
        pruned_at = tx.fetch_one(tx.sql.setting_find, name=PRUNED_SETTING)
        elapsed = None if pruned_at is None else tx.now() - clock.parse_stamp(pruned_at)
    return elapsed is None or not 0 <= elapsed < INTERVAL_SECONDS * clock.MICROSECONDS_PER_SECOND


def add_timer(store: Store) -> str:
    """Let the notifier prune the store every day, and return the id of the timer."""
    from postroom.queues import notifier

    timer_id = timer_id_of(store)
    words = isolated_command("postroom.cli.inbox", "store", "prune", "--by-policy", "--db", store.location)
    remove_timer(store)
    with notifier.open_notifier() as opened:
        notifier.add_timer(opened, timer_id, author="inbox", cron="@daily", command=" ".join(map(shell_quote, words)))
    return timer_id


def remove_timer(store: Store) -> bool:
    """Remove the timer of the store, and return whether there was one."""
    from postroom.queues import notifier

    try:
        with notifier.open_notifier() as opened:
            notifier.remove_timer(opened, timer_id_of(store))
    except Refusal:
        return False
    return True


def timer_id_of(store: Store) -> str:
    """Return the id of the timer that prunes a store. Each store has its own."""
    return f"prune-{sha1_hex(store.location)[:12]}"


def _find_policy(tx: Transaction) -> RetentionPolicy | None:
    value = tx.fetch_one(tx.sql.setting_find, name=POLICY_SETTING)
    if value is None:
        return None
    fields = jsontext.loads(value)
    seconds = int(fields["older_than_seconds"])
    return RetentionPolicy(seconds, format_duration(seconds), tuple(fields["keep_runs"]))
