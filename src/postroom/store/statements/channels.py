"""The statements of channels and alerts, in a module of their own because few commands need them. They are the same on both engines."""

from __future__ import annotations

from postroom.core.records.channels import Alert, Channel
from postroom.store.tables import Query, Table, single_value

CHANNELS = Table("channels", (*Channel.__fields__, "secrets_json"))
ALERTS = Table("alerts", Alert.__fields__)

_SELECT_CHANNEL = f"SELECT {', '.join(Channel.__fields__)} FROM channels"
_SELECT_ALERT = f"SELECT {ALERTS.column_list} FROM alerts"

channel_insert = CHANNELS.insert_statement()
channel_find = Query(f"{_SELECT_CHANNEL} WHERE channel_id = :channel_id", Channel)
channel_secrets = Query("SELECT secrets_json FROM channels WHERE channel_id = :channel_id", single_value)
channel_delete = "DELETE FROM channels WHERE channel_id = :channel_id"
channels_all = Query(f"{_SELECT_CHANNEL} ORDER BY channel_id LIMIT :limit", Channel)
channels_of = Query(f"{_SELECT_CHANNEL} WHERE person = :person ORDER BY channel_id", Channel)
channels_of_everything = Query(f"{_SELECT_CHANNEL} WHERE sends = 'everything' ORDER BY channel_id", Channel)

# One message per matter: a second alert of the same channel, entry and purpose is not stored.
alert_insert = f"{ALERTS.insert_statement()} ON CONFLICT DO NOTHING"
alert_find = Query(f"{_SELECT_ALERT} WHERE alert_id = :alert_id", Alert)
alerts_of_entry = Query(f"{_SELECT_ALERT} WHERE entry_id = :entry_id AND entry_id <> '' ORDER BY channel_id, purpose", Alert)
alerts_due = Query(f"{_SELECT_ALERT} WHERE due_at IS NOT NULL AND due_at <= :now ORDER BY due_at LIMIT :limit", Alert)
alert_next_due = Query("SELECT min(due_at) FROM alerts WHERE due_at IS NOT NULL", single_value)
alert_postpone = "UPDATE alerts SET due_at = :due_at WHERE alert_id = :alert_id AND state = 'waiting'"
alert_queue = "UPDATE alerts SET state = 'queued', due_at = NULL, queued_at = :now WHERE alert_id = :alert_id AND state = 'waiting'"
alert_link = "UPDATE alerts SET linked_at = :now WHERE alert_id = :alert_id AND linked_at IS NULL"
alert_end = """
    UPDATE alerts SET state = :state, due_at = NULL, ended_at = :now, reason = :reason
    WHERE alert_id = :alert_id AND state IN ('waiting', 'queued')"""
alerts_forget = "DELETE FROM alerts WHERE channel_id = :channel_id AND entry_id = '' AND state IN ('sent', 'dropped')"
alerts_delete_channel = "DELETE FROM alerts WHERE channel_id = :channel_id"
alerts_delete_entry = "DELETE FROM alerts WHERE entry_id = :entry_id AND entry_id <> ''"
