"""The verbs of channels: add, list, show, remove and test. The command line calls them."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, clock
from postroom.core.errors import InvalidState, NotFound
from postroom.core.records.channels import CHANNEL_CONTENTS, CHANNEL_KINDS, QUESTIONS, TRIAL, Channel, ChannelList
from postroom.core.verbs import PEOPLE, READ, SERVER_MACHINE, STEPS, WRITE, verb
from postroom.mail import dead_letters, settings, sweeping
from postroom.people import repository
from postroom.people.channels import planning, queueing, schedule, targets
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from postroom.core.records.channels import Alert
    from postroom.store.interface import Store, Transaction

MAX_CHANNELS = 100  # of a store: each entry may store an alert for each of them
DELAY_SECONDS = 30.0
REMIND_SECONDS = 600.0
# Retries after 5, 10, 20 … seconds, the last one after about 21 minutes in total. A sender extends the time in flight while it works.
RETRY_POLICY: dict[str, Any] = {"base_backoff_secs": 5.0, "max_retries": 8, "inflight_timeout_secs": 30.0}


@verb(caller=SERVER_MACHINE, mode=STEPS)
def add_channel(
    store: Store,
    *,
    person: str,
    kind: str,
    target: str,
    sends: str = QUESTIONS,
    quiet: str | None = None,
    time_zone: str = "UTC",
    digest_at: str = "08:00",
    delay_seconds: float = DELAY_SECONDS,
    remind_seconds: float = REMIND_SECONDS,
    url: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Channel:
    """Add a way to reach a person who is away, and return it. Its secret is kept in the store and never returned.

    `options`: `secret` or `secret_env`, the name of a variable of the sender; `allow_plain`; for e-mail `smtp`, `from` and `reply_to`; for
    a command `env`, a dictionary of variables. Only callers on this machine can add one: a command runs on it.
    """
    checks.choice("kind", kind, CHANNEL_KINDS)
    checks.choice("sends", sends, CHANNEL_CONTENTS)
    given = {name: value for name, value in (options or {}).items() if value not in (None, False, {})}
    targets.check_target(kind, target, given)
    fields = {
        "quiet": None if quiet is None else schedule.check_quiet(quiet),
        "time_zone": schedule.check_zone(time_zone),
        "digest_at": schedule.check_time("digest-at", digest_at),
        "delay_seconds": float(checks.seconds("delay_seconds", delay_seconds, allow_zero=True)),
        "remind_seconds": float(checks.seconds("remind_seconds", remind_seconds, allow_zero=True)),
        "url": None if url is None else targets.check_public_url(url),
    }
    secret = given.pop("secret", None)
    channel = _store_channel(store, {"person": person, "kind": kind, "target": target, "sends": sends, **fields}, given, secret)
    settings.set_policy(store, channel.session, **RETRY_POLICY)
    return channel


@retry_on_contention
def _store_channel(store: Store, fields: dict[str, Any], options: dict[str, Any], secret: str | None) -> Channel:
    from postroom.people.access.tokens import new_token

    secrets = {"link_key": new_token("key"), **({} if secret is None else {"secret": secret})}
    with store.write() as tx:
        repository.require_person(tx, "person", fields["person"])
        if len(tx.fetch_all(tx.sql.channels_all, limit=MAX_CHANNELS)) == MAX_CHANNELS:
            raise InvalidState(f"there are {MAX_CHANNELS} channels already", hint="Remove one: `inbox channel list`.")
        fields |= {"channel_id": tx.new_id("ch"), "options_json": jsontext.dumps(options), "created_at": clock.format_stamp(tx.now())}
        channel = Channel(**fields)
        tx.execute(tx.sql.channel_insert, **dict(channel.items()), secrets_json=jsontext.dumps(secrets))
        planning.plan_digest(tx, channel)
        planning.announce(tx, "added", channel)
    return channel


@verb(caller=PEOPLE, mode=READ)
def list_channels(store: Store, *, person: str | None = None) -> ChannelList:
    """Return the channels of a person, or of all people. Secrets are not shown."""
    with store.read() as tx:
        if person is not None:
            return ChannelList(tuple(tx.fetch_all(tx.sql.channels_of, person=checks.name("person", person))))
        return ChannelList(tuple(tx.fetch_all(tx.sql.channels_all, limit=MAX_CHANNELS)))


@verb(caller=PEOPLE, mode=READ)
def show_channel(store: Store, channel_id: str) -> Channel:
    """Return a channel, without its secrets. Refuses with `NotFound`."""
    with store.read() as tx:
        return get_channel(tx, channel_id)


@verb(caller=PEOPLE, mode=STEPS)
def remove_channel(store: Store, channel_id: str) -> Channel:
    """Remove a channel, with its secrets, its alerts and its mailbox's messages, and return it. Links that it sent keep working."""
    channel = _delete_channel(store, channel_id)
    sweeping.purge(store, channel.session)
    dead_letters.purge_dead_letter(store, channel.session)
    return channel


@retry_on_contention
def _delete_channel(store: Store, channel_id: str) -> Channel:
    with store.write() as tx:
        channel = get_channel(tx, channel_id)
        tx.execute(tx.sql.alerts_delete_channel, channel_id=channel_id)
        tx.execute(tx.sql.channel_delete, channel_id=channel_id)
        planning.announce(tx, "removed", channel)
    return channel


@verb(caller=SERVER_MACHINE, mode=WRITE)
@retry_on_contention
def send_test_alert(store: Store, channel_id: str) -> Alert:
    """Put a test message into the mailbox of a channel, at once and also in quiet hours. Return its alert."""
    with store.write() as tx:
        channel = get_channel(tx, channel_id)
        alert = planning.insert_alert(tx, channel, "", TRIAL, tx.now())
        return queueing.queue_alert(tx, channel, alert)


def get_channel(tx: Transaction, channel_id: str) -> Channel:
    """Return a channel. Refuses with `NotFound`."""
    channel = tx.fetch_one(tx.sql.channel_find, channel_id=checks.name("channel", channel_id))
    if channel is None:
        raise NotFound(f"there is no channel {channel_id}", hint="See `inbox channel list`.", channel_id=channel_id)
    return channel
