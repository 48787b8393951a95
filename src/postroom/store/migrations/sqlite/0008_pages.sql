-- Fewer pages for each write: a commit pays for the pages that it changes.

-- Events without a thread, as those of mail, are found by their message or by their id.
DROP INDEX idx_events_thread_event;
CREATE INDEX idx_events_thread_event ON events(thread_id, event_id) WHERE thread_id <> '';

-- As before, and with the condition of that index.
DROP TRIGGER foreign_thread;
CREATE TRIGGER foreign_thread AFTER INSERT ON threads WHEN NEW.latest_message_id IS NULL OR NEW.updated_at NOT GLOB '*T??:??:??.??????Z'
BEGIN
  INSERT INTO events (run_id, task_id, thread_id, source, event_type, summary, created_at)
    SELECT NEW.run_id, NEW.task_id, NEW.thread_id, NEW.created_by, 'thread.inserted', NEW.subject, strftime('%Y-%m-%dT%H:%M:%f000Z')
    WHERE NEW.latest_message_id IS NULL AND NOT EXISTS (SELECT 1 FROM events WHERE thread_id = NEW.thread_id AND thread_id <> '');
  UPDATE threads SET
    created_at = coalesce(strftime('%Y-%m-%dT%H:%M:%f000Z', CASE WHEN created_at LIKE '____-%' THEN created_at END), strftime('%Y-%m-%dT%H:%M:%f000Z')),
    updated_at = coalesce(strftime('%Y-%m-%dT%H:%M:%f000Z', CASE WHEN updated_at LIKE '____-%' THEN updated_at END), strftime('%Y-%m-%dT%H:%M:%f000Z'))
  WHERE thread_id = NEW.thread_id;
END;

-- Only a head is offered, in flight or nacked. So one small index has the heads to offer, whose move_at is NULL, in their order, and the
-- deliveries and retries that fall due. A move between the two stays on its page.
DROP INDEX idx_deliveries_offer;
DROP INDEX idx_deliveries_due;
CREATE INDEX idx_deliveries_head ON deliveries(session, move_at, rank, delivery_id) WHERE head = 1;
CREATE INDEX idx_deliveries_expiry ON deliveries(session, expires_at, delivery_id) WHERE expires_at IS NOT NULL AND ended_at IS NULL;
