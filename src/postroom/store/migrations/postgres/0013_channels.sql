-- Channels: the ways to reach people who are away. secrets_json: the channel's secret, and the key of its links.
CREATE TABLE channels (
  channel_id TEXT NOT NULL PRIMARY KEY,
  person TEXT NOT NULL,
  kind TEXT NOT NULL,
  target TEXT NOT NULL,
  sends TEXT NOT NULL,
  quiet TEXT,
  time_zone TEXT NOT NULL,
  digest_at TEXT NOT NULL,
  delay_seconds DOUBLE PRECISION NOT NULL,
  remind_seconds DOUBLE PRECISION NOT NULL,
  url TEXT,
  options_json TEXT NOT NULL,
  created_at TEXT NOT NULL,
  secrets_json TEXT NOT NULL
);
CREATE INDEX idx_channels_person ON channels(person, channel_id);
CREATE INDEX idx_channels_everything ON channels(channel_id) WHERE sends = 'everything';

-- Alerts: one message by one channel. entry_id is empty for digests and tests. due_at: while it waits, when it goes into the mailbox.
CREATE TABLE alerts (
  alert_id TEXT NOT NULL PRIMARY KEY,
  channel_id TEXT NOT NULL,
  entry_id TEXT NOT NULL,
  purpose TEXT NOT NULL,
  state TEXT NOT NULL,
  due_at BIGINT,
  created_at TEXT NOT NULL,
  queued_at TEXT,
  ended_at TEXT,
  reason TEXT NOT NULL,
  linked_at TEXT
);
CREATE UNIQUE INDEX idx_alerts_entry ON alerts(entry_id, channel_id, purpose) WHERE entry_id <> '';
CREATE INDEX idx_alerts_due ON alerts(due_at) WHERE due_at IS NOT NULL;
CREATE INDEX idx_alerts_channel ON alerts(channel_id, alert_id);
