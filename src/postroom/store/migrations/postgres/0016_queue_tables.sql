-- Differs from SQLite: storage parameters, and indexes that only this engine needs or does not need.

-- Room in each page for the next version of its rows, so that an update that changes no indexed column adds nothing to any index (HOT).
ALTER TABLE meta SET (fillfactor = 20);
ALTER TABLE mailboxes SET (fillfactor = 50);
ALTER TABLE agents SET (fillfactor = 70);
ALTER TABLE cursors SET (fillfactor = 50);
ALTER TABLE threads SET (fillfactor = 85);

-- Rows of a queue change several times, and most of them end. Autovacuum would wait until a fifth of a table of millions of rows is dead:
-- by then, statements walk over dead entries of the indexes for the newest rows.
ALTER TABLE threads SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE leases SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE deliveries SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE reads SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE tasks SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE idempotency_keys SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
-- Few rows that change with each message.
ALTER TABLE meta SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
ALTER TABLE mailboxes SET (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 500);
ALTER TABLE cursors SET (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 500);
-- Rows that are only added: freeze them in small portions.
ALTER TABLE events SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE messages SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- No statement uses these.
DROP INDEX idx_messages_thread_created;
DROP INDEX idx_jobs_running;

-- `artifacts_inserted` reads pages of a copy in this order. In SQLite it is the rowid.
CREATE INDEX idx_artifacts_position ON artifacts(position);
