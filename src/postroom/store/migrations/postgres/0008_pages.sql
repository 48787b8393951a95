-- Fewer pages for each write: a commit pays for the pages that it changes.

-- Events without a thread, as those of mail, are found by their message or by their id.
DROP INDEX idx_events_thread_event;
CREATE INDEX idx_events_thread_event ON events(thread_id, event_id) WHERE thread_id <> '';

-- Only a head is offered, in flight or nacked. So one small index has the heads to offer, whose move_at is NULL, in their order, and the
-- deliveries and retries that fall due. A move between the two stays on its page.
DROP INDEX idx_deliveries_offer;
DROP INDEX idx_deliveries_due;
CREATE INDEX idx_deliveries_head ON deliveries(session, move_at, rank, delivery_id) WHERE head = 1;
CREATE INDEX idx_deliveries_expiry ON deliveries(session, expires_at, delivery_id) WHERE expires_at IS NOT NULL AND ended_at IS NULL;
